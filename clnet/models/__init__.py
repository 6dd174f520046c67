"""Networks by family, with torchvision's names and ``state_dict`` keys where it has them."""

from .alexnet import AlexNet, alexnet
from .bert import Bert, BertConfig, bert_base
from .cifar_resnet import CifarResNet, resnet14, resnet14_bn, resnet20, resnet56
from .cnn import CNN
from .convnext import ConvNeXt, convnext_base, convnext_small, convnext_tiny
from .dcgan import DCGANDiscriminator, DCGANGenerator
from .densenet import DenseNet, densenet121
from .diffusion import DiffusionUNet
from .ece408 import ECE408, ece408
from .efficientnet import (
    EfficientNet,
    efficientnet_b0,
    efficientnet_b1,
    efficientnet_b2,
    efficientnet_b3,
    efficientnet_b4,
)
from .googlenet import GoogLeNet, GoogLeNetOutputs, googlenet
from .gpt import GPT, gpt, gpt2
from .inception import Inception3, InceptionOutputs, inception_v3
from .language import LSTMLanguageModel, lstm_language_model
from .lenet import LeNet
from .llama import Llama, LlamaConfig, llama2_7b, llama3_8b
from .mixer import MLPMixer, mixer_b16, mixer_s16
from .mlp import MLP
from .mnasnet import MNASNet, mnasnet1_0
from .mobilenet import MobileNetV2, mobilenet_v2
from .mobilenet_v3 import MobileNetV3, mobilenet_v3_large, mobilenet_v3_small
from .regnet import RegNet, regnet_x_400mf, regnet_y_400mf
from .resnet import (
    ResNet,
    resnet18,
    resnet34,
    resnet50,
    resnet101,
    resnet152,
    resnext50_32x4d,
    resnext101_32x8d,
    wide_resnet50_2,
    wide_resnet101_2,
)
from .shi import (
    SHI_NETWORKS,
    ShiNetwork,
    alexnet_r,
    alexnet_s,
    fcn_r,
    fcn_s,
    shi_lstm,
    shi_resnet56,
)
from .shufflenet import ShuffleNetV2, shufflenet_v2_x0_5, shufflenet_v2_x1_0
from .squeezenet import SqueezeNet, squeezenet1_0, squeezenet1_1
from .swin import SwinTransformer, swin_s, swin_t
from .tagger import GRUTagger, gru_tagger
from .translator import Translator, translator
from .unet import UNet, unet
from .vae import VAE, vae_loss
from .vgg import VGG, vgg11, vgg11_bn, vgg13, vgg13_bn, vgg16, vgg16_bn, vgg19, vgg19_bn
from .vision_transformer import VisionTransformer, vit_b_16, vit_b_32, vit_l_16

__all__ = [
    "CNN",
    "ECE408",
    "GPT",
    "MLP",
    "SHI_NETWORKS",
    "VAE",
    "VGG",
    "AlexNet",
    "Bert",
    "BertConfig",
    "CifarResNet",
    "ConvNeXt",
    "DCGANDiscriminator",
    "DCGANGenerator",
    "DenseNet",
    "DiffusionUNet",
    "EfficientNet",
    "GRUTagger",
    "GoogLeNet",
    "GoogLeNetOutputs",
    "Inception3",
    "InceptionOutputs",
    "LSTMLanguageModel",
    "LeNet",
    "Llama",
    "LlamaConfig",
    "MLPMixer",
    "MNASNet",
    "MobileNetV2",
    "MobileNetV3",
    "RegNet",
    "ResNet",
    "ShiNetwork",
    "ShuffleNetV2",
    "SqueezeNet",
    "SwinTransformer",
    "Translator",
    "UNet",
    "VisionTransformer",
    "alexnet",
    "alexnet_r",
    "alexnet_s",
    "bert_base",
    "convnext_base",
    "convnext_small",
    "convnext_tiny",
    "densenet121",
    "ece408",
    "efficientnet_b0",
    "efficientnet_b1",
    "efficientnet_b2",
    "efficientnet_b3",
    "efficientnet_b4",
    "fcn_r",
    "fcn_s",
    "googlenet",
    "gpt",
    "gpt2",
    "gru_tagger",
    "inception_v3",
    "llama2_7b",
    "llama3_8b",
    "lstm_language_model",
    "mixer_b16",
    "mixer_s16",
    "mnasnet1_0",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "mobilenet_v3_small",
    "regnet_x_400mf",
    "regnet_y_400mf",
    "resnet14",
    "resnet14_bn",
    "resnet18",
    "resnet20",
    "resnet34",
    "resnet50",
    "resnet56",
    "resnet101",
    "resnet152",
    "resnext50_32x4d",
    "resnext101_32x8d",
    "shi_lstm",
    "shi_resnet56",
    "shufflenet_v2_x0_5",
    "shufflenet_v2_x1_0",
    "squeezenet1_0",
    "squeezenet1_1",
    "swin_s",
    "swin_t",
    "translator",
    "unet",
    "vae_loss",
    "vgg11",
    "vgg11_bn",
    "vgg13",
    "vgg13_bn",
    "vgg16",
    "vgg16_bn",
    "vgg19",
    "vgg19_bn",
    "vit_b_16",
    "vit_b_32",
    "vit_l_16",
    "wide_resnet50_2",
    "wide_resnet101_2",
]
