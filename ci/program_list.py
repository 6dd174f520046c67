"""The programs that ``ci/programs.py`` runs: models, losses, metrics and optimisers of packages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Program:
    """One thing to run.

    Attributes:
        kind: ``"optimisers"``, ``"models"``, ``"losses"`` or ``"metrics"``.
        package: the module that is imported.
        name: of the class in it.
        make: gives it, of the library, the package's module and (for optimisers) parameters.
        inputs: gives a model's, a loss's or a metric's inputs.
        tolerance: relative to the largest element.
        double: compared in float64, where float32 leaves too few digits to tell right from wrong.
        sizes: of an optimiser's network: inputs, hidden values, outputs.
    """

    kind: str
    package: str
    name: str
    make: Callable[..., Any]
    inputs: Callable[[np.random.Generator], list[np.ndarray]] | None = None
    tolerance: float = 1e-4
    double: bool = False
    sizes: tuple[int, int, int] = (7, 5, 3)

    @property
    def title(self) -> str:
        """Package and name."""
        return f"{self.package}.{self.name}"


def optimiser(
    package: str,
    name: str,
    *,
    tolerance: float = 1e-4,
    double: bool = False,
    sizes: tuple[int, int, int] = (7, 5, 3),
    **settings: Any,
) -> Program:
    """A program that is an optimiser, with settings; the others as a :class:`Program` has them."""

    def make(library: Any, module: Any, parameters: Any) -> Any:
        del library
        return getattr(module, name)(parameters, **settings)

    return Program("optimisers", package, name, make, None, tolerance, double, sizes)


def model(
    package: str, name: str, shape: tuple[int, ...], *, tokens: int = 0, **settings: Any
) -> Program:
    """A program that is a model, with settings; of images, or of tokens below a number."""

    def make(library: Any, module: Any, parameters: Any) -> Any:
        del library, parameters
        return getattr(module, name)(**settings)

    def inputs(rng: np.random.Generator) -> list[np.ndarray]:
        drawn = rng.integers(0, tokens, shape) if tokens else rng.standard_normal(shape)
        return [drawn.astype(np.int64 if tokens else np.float32)]

    title = settings.get("model_name", name)
    return Program("models", package, title, make, inputs, tolerance=2e-3)


def _transformer(kind: str, **settings: Any) -> Program:
    def make(library: Any, module: Any, parameters: Any) -> Any:
        del library, parameters
        layers = getattr(module, kind)(dim=32, depth=2, heads=2, **settings)
        return module.TransformerWrapper(num_tokens=20, max_seq_len=12, attn_layers=layers)

    def inputs(rng: np.random.Generator) -> list[np.ndarray]:
        return [rng.integers(0, 20, (2, 9))]

    return Program("models", "x_transformers", kind, make, inputs, tolerance=2e-3)


def called(
    kind: str,
    package: str,
    name: str,
    *inputs: tuple[Any, ...],
    title: str = "",
    double: bool = False,
    **settings: Any,
) -> Program:
    """A program that is a model, loss or metric, with settings and any inputs.

    Args:
        kind: which.
        package: the module.
        name: a class; with a small first letter a function, that gets the settings at each call.
        *inputs: a shape for normal numbers, or a shape behind ``"int"`` and a bound, ``"unit"``
            (between 0 and 1), ``"softmax"`` (that add up to 1 along axis 1) or ``"boxes"``.
        title: what it is called; None: its name.
        double: as a :class:`Program` has it.
        **settings: for the class or function.
    """

    def make(library: Any, module: Any, parameters: Any) -> Any:
        del library, parameters
        found = getattr(module, name)
        if name[0].islower() and name not in _FACTORIES:
            return lambda *x: found(*x, **settings)
        return found(**settings)

    def draw(rng: np.random.Generator) -> list[np.ndarray]:
        return [_drawn(rng, *given) for given in inputs]

    return Program(kind, package, title or name, make, draw, tolerance=2e-3, double=double)


def configured(
    name: str, config: str, *inputs: tuple[Any, ...], double: bool = False, **settings: Any
) -> Program:
    """A model of transformers, of random weights, made of a configuration's settings.

    Those that end with a norm are compared in float64: their squares' mean has hardly a gradient.
    """

    def make(library: Any, module: Any, parameters: Any) -> Any:
        del library, parameters
        return getattr(module, name)(getattr(module, config)(**settings))

    def draw(rng: np.random.Generator) -> list[np.ndarray]:
        return [_drawn(rng, *given) for given in inputs]

    return Program("models", "transformers", name, make, draw, tolerance=2e-3, double=double)


def adapted(name: str, *inputs: tuple[Any, ...], **settings: Any) -> Program:
    """A model with peft's adapters, of a configuration's settings."""

    def make(library: Any, module: Any, parameters: Any) -> Any:
        del parameters
        layers = library.nn.Linear(6, 8), library.nn.ReLU(), library.nn.Linear(8, 4)
        config = getattr(module, name)(target_modules=["0", "2"], **settings)
        return module.get_peft_model(library.nn.Sequential(*layers), config)

    def draw(rng: np.random.Generator) -> list[np.ndarray]:
        return [_drawn(rng, *given) for given in inputs]

    return Program("models", "peft", name, make, draw, tolerance=2e-3)


_FACTORIES = {"resnet18", "squeezenet1_1", "mobilenet_v3_small", "shufflenet_v2_x0_5"}
_FACTORIES |= {"mnasnet0_5", "regnet_y_400mf", "resnet50", "lraspp_mobilenet_v3_large"}


def _drawn(rng: np.random.Generator, *given: Any) -> np.ndarray:
    if given[0] == "int":
        return rng.integers(0, given[1], given[2:])
    if given[0] == "unit":
        return rng.random(given[1:]).astype(np.float32)
    if given[0] == "softmax":
        raw = np.exp(rng.standard_normal(given[1:]))
        return (raw / raw.sum(1, keepdims=True)).astype(np.float32)
    if given[0] == "boxes":
        corner, size = rng.random((given[1], 2)), rng.random((given[1], 2)) + 0.1
        return np.concatenate([corner, corner + size], 1).astype(np.float32)
    return rng.standard_normal(given).astype(np.float32)


_TORCH_OPTIMIZER = (
    *(
        "A2GradExp",
        "A2GradInc",
        "A2GradUni",
        "AccSGD",
        "AdaBelief",
        "AdaBound",
        "AdaMod",
    ),
    *(
        "AdamP",
        "AggMo",
        "Apollo",
        "DiffGrad",
        "LARS",
        "Lamb",
        "MADGRAD",
        "NovoGrad",
        "PID",
        "QHAdam",
    ),
    *("QHM", "RAdam", "Ranger", "RangerQH", "RangerVA", "SGDP", "SGDW", "SWATS", "Yogi"),
)
_PYTORCH_OPTIMIZER = (
    *("A2Grad", "ADOPT", "APOLLO", "AdEMAMix", "AdaBelief", "AdaBound", "AdaDelta", "AdaFactor"),
    *(
        "AdaGC",
        "AdaLOMO",
        "AdaMax",
        "AdaMod",
        "AdaNorm",
        "AdaPNM",
    ),
    *("AdaShift", "AdaSmooth", "AdaTAM", "Adai", "Adalite", "AdamC", "AdamG", "AdamP"),
    *("AdamS", "AdamWSN", "Adan", "AggMo", "Aida", "Ano", "AvaGrad", "BCOS", "CAME", "Conda"),
    *("DAdaptAdaGrad", "DAdaptAdam", "DAdaptAdan", "DAdaptLion", "DAdaptSGD", "DiffGrad", "EXAdam"),
    *("EmoFact", "EmoLynx", "EmoNavi", "FAdam", "FOCUS", "FTRL", "Fromage", "GaLore", "Grams"),
    *("MADGRAD", "MARS", "MSVAG", "Nero", "NovoGrad", "PAdam", "PID", "PNM", "Prodigy"),
    *("QHAdam", "QHM", "RACS", "RAdam", "Ranger", "Ranger21", "SCION", "SCIONLight"),
    *("SGDP", "SGDSaI", "SGDW", "SM3", "SOAP", "SPAM", "SPlus", "SRMM", "SWATS", "ScalableShampoo"),
    *(
        "ScheduleFreeAdamW",
        "ScheduleFreeRAdam",
        "ScheduleFreeSGD",
        "Shampoo",
        "SignSGD",
        "SimplifiedAdEMAMix",
    ),
    *("StableAdamW", "StableSPAM", "TAM", "Tiger", "VSGD", "Yogi"),
)
# Left out: those that draw random numbers (the libraries' differ) or want more than parameters.
_NEEDS = {"Ranger21": {"num_iterations": 10}, "AdaLOMO": None, "LOMO": None}
_SQUARE = {"double": True, "sizes": (5, 5, 5)}
"""For steps taken in a basis of eigenvectors of ``g @ g.T``.

Where ``g`` has fewer columns than rows, that product has the eigenvalue 0 several times, and any
basis of those vectors is right: which one comes is decided by rounding, and signs and moments taken
in it differ by as much as they are. Square gradients have no such vectors.
"""
_NEEDS |= {"SOAP": _SQUARE, "SPlus": _SQUARE}
_FURTHER = (
    ("lion_pytorch", "Lion"),
    ("adabelief_pytorch", "AdaBelief"),
    ("schedulefree", "AdamWScheduleFree"),
    ("schedulefree", "SGDScheduleFree"),
    ("schedulefree", "RAdamScheduleFree"),
    ("prodigyopt", "Prodigy"),
    ("dadaptation", "DAdaptAdam"),
    ("dadaptation", "DAdaptSGD"),
    ("dadaptation", "DAdaptAdaGrad"),
    ("dadaptation", "DAdaptLion"),
    ("dadaptation", "DAdaptAdan"),
)

_VIT = {"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 32, "depth": 2}
_HEADS = {"heads": 2, "mlp_dim": 48}
_IMAGE = (2, 3, 32, 32)
_SMP = {"encoder_name": "tu-resnet10t", "encoder_weights": None}
_VISION = {"image_size": 32, "patch_size": 8, "num_layers": 1, "num_heads": 2, "hidden_dim": 32}
_VISION |= {"mlp_dim": 48, "num_classes": 5}
_SMALL = {"heads": 2, "dim_head": 16}
_NYSTROM = {"dim": 32, "dim_head": 16, "heads": 2, "num_landmarks": 4}
_LOCAL = {"num_tokens": 20, "dim": 32, "depth": 1, "max_seq_len": 16, "local_attn_window_size": 8}
_SIREN = {"dim_in": 2, "dim_hidden": 16, "dim_out": 3, "num_layers": 2}
_PERCEIVER = {"num_freq_bands": 2, "depth": 1, "max_freq": 4.0, "num_latents": 4, "latent_dim": 16}
_PERCEIVER |= {"num_classes": 5, "input_channels": 3, "input_axis": 2}
_LINFORMER = {"input_size": 16, "channels": 32, "dim_k": 8, "depth": 1, "nhead": 2, "dim_ff": 32}
_UNET = {"dim": 8, "dim_mults": (1, 2)}
_GRAPH = {"in_channels": 4, "out_channels": 3}
_MONAI = {"spatial_dims": 2, "in_channels": 1, "out_channels": 2, "features": (4, 4, 8, 8, 8, 4)}
_CLASSES = {"num_classes": 3, "embedding_size": 8}
_WORDS = {"vocab_size": 20, "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 32}
_WORDS |= {"intermediate_size": 48, "max_position_embeddings": 16}
_WIDTHS = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 32}
_WIDTHS |= {"image_size": 16, "patch_size": 8, "intermediate_size": 48, "num_labels": 4}
_GPT2 = {"vocab_size": 20, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 2}
_GPT2 |= {"bos_token_id": 1, "eos_token_id": 2}
_DISTIL = {"vocab_size": 20, "max_position_embeddings": 16, "dim": 32, "n_layers": 2, "n_heads": 2}
_T5 = {"vocab_size": 20, "d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 1, "num_heads": 2}
_TEXT = ("int", 20, 2, 7)
_NOISE = {"sample_size": 16, "in_channels": 1, "out_channels": 1, "layers_per_block": 1}
_NOISE |= {"block_out_channels": (8, 16), "norm_num_groups": 4, "attention_head_dim": 4}
_NOISE |= {"down_block_types": ("DownBlock2D", "AttnDownBlock2D")}
_NOISE |= {"up_block_types": ("AttnUpBlock2D", "UpBlock2D")}
_MODELS = [
    model("vit_pytorch", "ViT", _IMAGE, **_VIT, **_HEADS),
    model("vit_pytorch", "SimpleViT", _IMAGE, **_VIT, **_HEADS),
    model("vit_pytorch.deepvit", "DeepViT", _IMAGE, **_VIT, **_HEADS),
    model("vit_pytorch.cait", "CaiT", _IMAGE, **_VIT, **_HEADS, cls_depth=1),
    model("vit_pytorch.vit_for_small_dataset", "ViT", _IMAGE, **_VIT, **_HEADS),
    model("vit_pytorch.simple_vit_with_register_tokens", "SimpleViT", _IMAGE, **_VIT, **_HEADS),
    model("vit_pytorch.simple_vit_with_qk_norm", "SimpleViT", _IMAGE, **_VIT, **_HEADS),
    model("vit_pytorch.parallel_vit", "ViT", _IMAGE, **_VIT, **_HEADS),
    model("vit_pytorch.learnable_memory_vit", "ViT", _IMAGE, **_VIT, **_HEADS),
    model(
        *("vit_pytorch.cct", "CCT", _IMAGE),
        img_size=32,
        embedding_dim=32,
        n_conv_layers=1,
        num_layers=2,
        num_heads=2,
        mlp_ratio=2,
        num_classes=5,
        positional_embedding="learnable",
    ),
    model(
        *("vit_pytorch.mobile_vit", "MobileViT", (1, 3, 64, 64)),
        image_size=(64, 64),
        dims=[16, 24, 32],
        num_classes=5,
        channels=[8, 8, 16, 16, 16, 16, 24, 24, 24, 24, 32],
    ),
    _transformer("Decoder"),
    _transformer("Encoder"),
    _transformer("Decoder", rotary_pos_emb=True, ff_glu=True, use_rmsnorm=True),
    model("timm", "create_model", (1, 3, 64, 64), model_name="resnet10t", num_classes=5),
    model("timm", "create_model", (1, 3, 64, 64), model_name="test_vit", num_classes=5),
    model("timm", "create_model", (1, 3, 64, 64), model_name="test_efficientnet", num_classes=5),
    model("timm", "create_model", (1, 3, 64, 64), model_name="test_convnext", num_classes=5),
    model("timm", "create_model", (1, 3, 64, 64), model_name="test_byobnet", num_classes=5),
    model("timm", "create_model", (1, 3, 64, 64), model_name="test_nfnet", num_classes=5),
    model("timm", "create_model", (1, 3, 64, 64), model_name="test_mambaout", num_classes=5),
    *[
        model("segmentation_models_pytorch", name, (1, 3, 64, 64), **_SMP)
        for name in ("Unet", "FPN", "Linknet", "PSPNet")
    ],
    *[
        called("models", "torchvision.models", name, (2, 3, 64, 64), num_classes=5)
        for name in ("resnet18", "squeezenet1_1", "mobilenet_v3_small", "shufflenet_v2_x0_5")
    ],
    called("models", "torchvision.models", "mnasnet0_5", (2, 3, 64, 64), num_classes=5),
    called("models", "torchvision.models", "VisionTransformer", (1, 3, 32, 32), **_VISION),
    called("models", "performer_pytorch", "Performer", (2, 16, 32), dim=32, depth=1, **_SMALL),
    called(
        "models", "linformer", "Linformer", (2, 16, 32), dim=32, seq_len=16, depth=1, heads=2, k=8
    ),
    called("models", "nystrom_attention", "NystromAttention", (2, 16, 32), **_NYSTROM),
    called("models", "conformer", "ConformerBlock", (2, 12, 32), **_SMALL, dim=32, double=True),
    called("models", "local_attention", "LocalTransformer", ("int", 20, 2, 16), **_LOCAL),
    called("models", "siren_pytorch", "SirenNet", (9, 2), **_SIREN),
    called("models", "perceiver_pytorch", "Perceiver", (1, 8, 8, 3), **_PERCEIVER),
    called("models", "rotary_embedding_torch", "RotaryEmbedding", ("int", 9, 7), dim=16),
    called("models", "linformer_pytorch", "Linformer", (2, 16, 32), **_LINFORMER, double=True),
    called("models", "denoising_diffusion_pytorch", "Unet", (1, 3, 16, 16), ("int", 9, 1), **_UNET),
    called("models", "vector_quantize_pytorch", "FSQ", (2, 6, 3), levels=[5, 4, 3]),
    called(
        "models", "vector_quantize_pytorch", "VectorQuantize", (2, 6, 8), dim=8, codebook_size=5
    ),
    called("models", "torch_geometric.nn", "GCNConv", (5, 4), ("int", 5, 2, 9), **_GRAPH),
    called("models", "torch_geometric.nn", "SAGEConv", (5, 4), ("int", 5, 2, 9), **_GRAPH),
    called("models", "torch_geometric.nn", "GATConv", (5, 4), ("int", 5, 2, 9), **_GRAPH),
    configured("BertModel", "BertConfig", _TEXT, **_WORDS, double=True),
    configured("RobertaForMaskedLM", "RobertaConfig", _TEXT, **_WORDS),
    configured("LlamaForCausalLM", "LlamaConfig", _TEXT, **_WORDS, num_key_value_heads=1),
    configured("MistralForCausalLM", "MistralConfig", _TEXT, **_WORDS, num_key_value_heads=1),
    configured("Qwen2ForCausalLM", "Qwen2Config", _TEXT, **_WORDS, num_key_value_heads=1),
    configured("GPT2LMHeadModel", "GPT2Config", _TEXT, **_GPT2),
    configured("DistilBertForMaskedLM", "DistilBertConfig", _TEXT, **_DISTIL, hidden_dim=48),
    configured("T5ForConditionalGeneration", "T5Config", _TEXT, ("int", 2, 2, 7), _TEXT, **_T5),
    configured("ViTForImageClassification", "ViTConfig", (2, 3, 16, 16), **_WIDTHS),
    called("models", "diffusers", "UNet2DModel", (1, 1, 16, 16), ("int", 9, 1), **_NOISE),
    adapted("LoraConfig", (3, 6), r=2),
    adapted("IA3Config", (3, 6), feedforward_modules=["0", "2"]),
    called("models", "monai.networks.nets", "BasicUNet", (1, 1, 32, 32), **_MONAI, double=True),
]
_PAIRS = ((6, 8), ("int", 3, 6))
_LOSSES = [
    *[
        called("losses", "pytorch_metric_learning.losses", name, *_PAIRS)
        for name in (
            *("ContrastiveLoss", "TripletMarginLoss", "NTXentLoss", "CircleLoss", "SupConLoss"),
            *("MultiSimilarityLoss", "LiftedStructureLoss", "GeneralizedLiftedStructureLoss"),
            *("MarginLoss", "SignalToNoiseRatioContrastiveLoss"),
        )
    ],
    called("losses", "pytorch_metric_learning.losses", "ArcFaceLoss", *_PAIRS, **_CLASSES),
    called("losses", "pytorch_metric_learning.losses", "ProxyNCALoss", *_PAIRS, **_CLASSES),
    called(
        "losses", "pytorch_msssim", "SSIM", *(("unit", 1, 1, 16, 16),) * 2, data_range=1, channel=1
    ),
    called(
        "losses", "focal_loss.focal_loss", "FocalLoss", ("softmax", 5, 3), ("int", 3, 5), gamma=0.7
    ),
    *[
        called(
            "losses",
            "segmentation_models_pytorch.losses",
            name,
            (2, 1, 6, 6),
            ("int", 2, 2, 1, 6, 6),
            mode="binary",
        )
        for name in ("DiceLoss", "JaccardLoss", "FocalLoss", "LovaszLoss", "TverskyLoss")
    ],
    *[
        called("losses", "torchvision.ops", name, ("boxes", 4), ("boxes", 4), reduction="mean")
        for name in ("generalized_box_iou_loss", "complete_box_iou_loss", "distance_box_iou_loss")
    ],
    called(
        "losses", "torchvision.ops", "sigmoid_focal_loss", (4, 5), ("unit", 4, 5), reduction="mean"
    ),
    called("losses", "timm.loss", "LabelSmoothingCrossEntropy", (4, 5), ("int", 5, 4)),
    called("losses", "timm.loss", "SoftTargetCrossEntropy", (4, 5), ("softmax", 4, 5)),
    called("losses", "timm.loss", "AsymmetricLossMultiLabel", (4, 5), ("unit", 4, 5)),
    called("losses", "monai.losses", "DiceLoss", (2, 1, 6, 6), ("unit", 2, 1, 6, 6), sigmoid=True),
    called("losses", "monai.losses", "FocalLoss", (2, 1, 6, 6), ("unit", 2, 1, 6, 6)),
    called("losses", "kornia.losses", "SSIMLoss", *(("unit", 1, 1, 16, 16),) * 2, window_size=5),
]
_CLASS = ((8, 4), ("int", 4, 8))
_METRICS = [
    *[
        called("metrics", "torchmetrics.classification", name, *_CLASS, num_classes=4)
        for name in (
            *("MulticlassAccuracy", "MulticlassF1Score", "MulticlassConfusionMatrix"),
            *("MulticlassAUROC", "MulticlassAveragePrecision", "MulticlassCohenKappa"),
        )
    ],
    *[
        called("metrics", "torchmetrics", name, (9,), (9,))
        for name in (
            *("MeanSquaredError", "MeanAbsoluteError", "R2Score", "PearsonCorrCoef"),
            *("SpearmanCorrCoef", "ExplainedVariance"),
        )
    ],
    called("metrics", "torchmetrics.text", "Perplexity", ("softmax", 2, 5, 7), ("int", 7, 2, 5)),
    called(
        "metrics",
        "torchmetrics.image",
        "PeakSignalNoiseRatio",
        *(("unit", 1, 3, 8, 8),) * 2,
        data_range=1.0,
    ),
    called(
        "metrics",
        "torchmetrics.image",
        "StructuralSimilarityIndexMeasure",
        *(("unit", 1, 1, 16, 16),) * 2,
        data_range=1.0,
    ),
    called("metrics", "torchmetrics", "MeanMetric", (7,)),
]
PROGRAMS = [
    *_MODELS,
    *_LOSSES,
    *_METRICS,
    *[optimiser(package, name) for package, name in _FURTHER],
    *[optimiser("torch_optimizer", name) for name in _TORCH_OPTIMIZER],
    *[
        optimiser("pytorch_optimizer", name, **(_NEEDS.get(name, {}) or {}))
        for name in _PYTORCH_OPTIMIZER
        if _NEEDS.get(name, {}) is not None
    ],
]
