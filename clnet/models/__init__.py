"""Networks by family, with torchvision's names and ``state_dict`` keys where it has them."""

from .alexnet import AlexNet, alexnet
from .cifar_resnet import CifarResNet, resnet14, resnet14_bn, resnet20, resnet56
from .cnn import CNN
from .densenet import DenseNet, densenet121
from .ece408 import ECE408, ece408
from .gpt import GPT, gpt, gpt2
from .language import LSTMLanguageModel, lstm_language_model
from .lenet import LeNet
from .mlp import MLP
from .mobilenet import MobileNetV2, mobilenet_v2
from .resnet import ResNet, resnet18, resnet34, resnet50, resnet101
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
from .squeezenet import SqueezeNet, squeezenet1_0, squeezenet1_1
from .unet import UNet, unet
from .vgg import VGG, vgg11, vgg11_bn, vgg13, vgg13_bn, vgg16, vgg16_bn, vgg19, vgg19_bn

__all__ = [
    "CNN",
    "ECE408",
    "GPT",
    "MLP",
    "SHI_NETWORKS",
    "VGG",
    "AlexNet",
    "CifarResNet",
    "DenseNet",
    "LSTMLanguageModel",
    "LeNet",
    "MobileNetV2",
    "ResNet",
    "ShiNetwork",
    "SqueezeNet",
    "UNet",
    "alexnet",
    "alexnet_r",
    "alexnet_s",
    "densenet121",
    "ece408",
    "fcn_r",
    "fcn_s",
    "gpt",
    "gpt2",
    "lstm_language_model",
    "mobilenet_v2",
    "resnet14",
    "resnet14_bn",
    "resnet18",
    "resnet20",
    "resnet34",
    "resnet50",
    "resnet56",
    "resnet101",
    "shi_lstm",
    "shi_resnet56",
    "squeezenet1_0",
    "squeezenet1_1",
    "unet",
    "vgg11",
    "vgg11_bn",
    "vgg13",
    "vgg13_bn",
    "vgg16",
    "vgg16_bn",
    "vgg19",
    "vgg19_bn",
]
