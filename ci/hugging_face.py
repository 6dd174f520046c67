#!/usr/bin/env python3
"""Networks of Hugging Face's transformers, run by PyTorch and by clnet under PyTorch's name.

    python ci/hugging_face.py run THEIRS.jsonl [--device cuda] [NETWORK ...]
    python -m clnet.torch_compat ci/hugging_face.py run OURS.jsonl [--device gpu] [NETWORK ...]
    python ci/hugging_face.py compare THEIRS.jsonl OURS.jsonl

Both begin with the same weights, drawn by NumPy, and see the same batch, without dropout. Compared
are the first loss, the norms of all gradients, and of clnet the compiled loss with the eager one.
Timed are a training step with AdamW and an answer, on clnet's side by ``torch.compile``, too
(medians, waiting for the device each time). ``--small`` makes everything as small as it gets, for
a CPU. Needs transformers, which clnet's environments do not have.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import numpy as np
import torch

COMPILED = "clnet" in torch.__name__ or "clnet" in (torch.__file__ or "")
WORDS = 1000
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
TIMES = ("trained", "asked", "trained_compiled", "asked_compiled")
DROPPED = ("drop_prob", "p", "layerdrop")


class Sizes:
    """How large the networks and their batches are.

    Args:
        small: as small as it gets.
    """

    def __init__(self, *, small: bool) -> None:
        self.small = small
        self.width, self.depth, self.heads = (64, 2, 2) if small else (512, 6, 8)
        self.batch, self.length, self.image = (2, 16, 64) if small else (8, 256, 224)
        self.seconds = 4000 if small else 16000

    def layers(self) -> dict[str, int]:
        """Settings that most networks have by one name."""
        return {
            "hidden_size": self.width,
            "num_hidden_layers": self.depth,
            "num_attention_heads": self.heads,
            "intermediate_size": 4 * self.width,
        }

    def pick(self, small: Any, large: Any) -> Any:
        """One of two."""
        return small if self.small else large


ENDS = {
    "classes": ("ForSequenceClassification",),
    "words": ("LMHeadModel", "ForCausalLM", "ForConditionalGeneration"),
    "images": ("ForImageClassification",),
    "pixels": ("ForSemanticSegmentation",),
    "waves": ("ForSequenceClassification",),
    "spectra": ("ForConditionalGeneration",),
    "both": ("Model",),
}
"""Of classes' names, by what they are asked."""
Networks = dict[str, tuple[Callable[[], Any], str]]
"""What makes each network, and the name of its batch."""


def of(name: str, batch: str, **settings: Any) -> tuple[Callable[[], Any], str]:
    """A network by the beginning of its class's name, its batch and its configuration."""
    import transformers  # noqa: PLC0415 - who compares results needs it not

    head = next(name + end for end in ENDS[batch] if hasattr(transformers, name + end))
    config = getattr(transformers, f"{name}Config")
    return lambda: getattr(transformers, head)(config(**settings)), batch


def encoders(sizes: Sizes) -> Networks:
    """Of text, with a class as the answer."""
    settings = {**sizes.layers(), "vocab_size": WORDS, "num_labels": 2}
    return {
        "bert": of("Bert", "classes", **settings),
        "roberta": of("Roberta", "classes", **settings),
        "distilbert": of(
            "DistilBert",
            "classes",
            vocab_size=WORDS,
            dim=sizes.width,
            n_layers=sizes.depth,
            n_heads=sizes.heads,
            hidden_dim=4 * sizes.width,
            num_labels=2,
        ),
        "deberta": of(
            "DebertaV2",
            "classes",
            **settings,
            relative_attention=True,
            pos_att_type=["p2c", "c2p"],
            position_buckets=64,
            norm_rel_ebd="layer_norm",
        ),
    }


def decoders(sizes: Sizes) -> Networks:
    """Of text, with the next words as the answer."""
    settings = {**sizes.layers(), **TOKENS, "vocab_size": WORDS, "max_position_embeddings": 512}
    settings |= {"num_key_value_heads": sizes.heads // 2, "intermediate_size": 3 * sizes.width}
    width, depth, heads = sizes.width, sizes.depth, sizes.heads
    return {
        "gpt2": of("GPT2", "words", vocab_size=WORDS, n_embd=width, n_layer=depth, n_head=heads),
        "llama": of("Llama", "words", **settings),
        "qwen2": of("Qwen2", "words", **settings),
        "gemma2": of(
            "Gemma2",
            "words",
            **settings,
            head_dim=width // heads,
            query_pre_attn_scalar=width // heads,
            sliding_window=64,
        ),
        "phi": of("Phi", "words", **settings),
        "neox": of("GPTNeoX", "words", **sizes.layers(), vocab_size=WORDS),
        "opt": of(
            "OPT",
            "words",
            vocab_size=WORDS,
            hidden_size=width,
            word_embed_proj_dim=width,
            num_hidden_layers=depth,
            num_attention_heads=heads,
            ffn_dim=4 * width,
            **TOKENS,
        ),
        "mixtral": of("Mixtral", "words", **settings, num_local_experts=4),
        "mamba": of(
            "Mamba",
            "words",
            vocab_size=WORDS,
            hidden_size=width // 2,
            num_hidden_layers=2,
            **TOKENS,
        ),
    }


def translators(sizes: Sizes) -> Networks:
    """An encoder and a decoder, of text and of speech; and networks that end in neither."""
    width, half, heads = sizes.width, max(sizes.depth // 2, 1), sizes.heads
    pair: dict[str, Any] = {"vocab_size": WORDS, "d_model": width}
    for side in ("encoder", "decoder"):
        pair |= {f"{side}_layers": half, f"{side}_attention_heads": heads}
        pair |= {f"{side}_ffn_dim": 4 * width}
    pair |= {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
    part = {**sizes.layers(), "num_hidden_layers": half}
    text = {**part, **TOKENS, "vocab_size": WORDS, "max_position_embeddings": sizes.length}
    return {
        "t5": of(
            "T5",
            "words",
            vocab_size=WORDS,
            d_model=width,
            num_layers=half,
            num_heads=heads,
            d_ff=4 * width,
            d_kv=width // heads,
            decoder_start_token_id=0,
        ),
        "bart": of("Bart", "words", **pair),
        "whisper": of(
            "Whisper",
            "spectra",
            **pair,
            max_source_positions=100,
            suppress_tokens=None,
            begin_suppress_tokens=None,
        ),
        "wav2vec2": of(
            "Wav2Vec2",
            "waves",
            **sizes.layers(),
            num_labels=2,
            apply_spec_augment=False,
            num_conv_pos_embeddings=16,
            num_conv_pos_embedding_groups=4,
        ),
        "clip": of(
            "CLIP",
            "both",
            text_config=text,
            vision_config={**part, "image_size": sizes.image, "patch_size": 16},
        ),
    }


def pictures(sizes: Sizes) -> Networks:
    """Of images."""
    settings = {"num_labels": 2, "image_size": sizes.image}
    return {
        "vit": of("ViT", "images", **sizes.layers(), **settings),
        "swin": of(
            "Swin",
            "images",
            embed_dim=sizes.pick(32, 96),
            depths=sizes.pick([2, 2], [2, 2, 6, 2]),
            num_heads=sizes.pick([2, 4], [3, 6, 12, 24]),
            window_size=sizes.pick(4, 7),
            **settings,
        ),
        "convnextv2": of(
            "ConvNextV2",
            "images",
            hidden_sizes=sizes.pick([16, 32, 64, 128], [96, 192, 384, 768]),
            depths=sizes.pick([1, 1, 1, 1], [3, 3, 9, 3]),
            **settings,
        ),
        "segformer": of("Segformer", "pixels", num_labels=5),
        "mobilevit": of("MobileViT", "images", **settings),
        "resnet": of("ResNet", "images", num_labels=2),
    }


def batches(sizes: Sizes, device: Any) -> dict[str, dict[str, Any]]:
    """Arguments by the name of a batch, drawn by NumPy."""
    rng = np.random.default_rng(0)
    n, length, image = sizes.batch, sizes.length, sizes.image

    def there(x: Any) -> Any:
        return torch.from_numpy(np.ascontiguousarray(x)).to(device)

    ids, kinds = there(rng.integers(5, WORDS, (n, length))), there(rng.integers(0, 2, n))
    pixels = there(rng.standard_normal((n, 3, image, image), dtype=np.float32))
    seen = torch.ones(n, length, dtype=torch.long, device=device)
    return {
        "classes": {"input_ids": ids, "attention_mask": seen, "labels": kinds},
        "words": {"input_ids": ids, "labels": ids},
        "images": {"pixel_values": pixels, "labels": kinds},
        "pixels": {
            "pixel_values": pixels,
            "labels": there(rng.integers(0, 5, (n, image, image))),
        },
        "waves": {
            "input_values": there(rng.standard_normal((n, sizes.seconds), dtype=np.float32)),
            "labels": kinds,
        },
        "spectra": {
            "input_features": there(rng.standard_normal((n, 80, 200), dtype=np.float32)),
            "labels": ids,
        },
        "both": {"input_ids": ids, "pixel_values": pixels, "return_loss": True},
    }


def filled(model: Any) -> Any:
    """The network with weights by NumPy, in the order of their names, and without dropout."""
    for module in model.modules():
        for name in [n for n in vars(module) if "dropout" in n or n in DROPPED]:
            if isinstance(getattr(module, name), float):
                setattr(module, name, 0.0)
    for name, value in vars(model.config).items():
        if "drop" in name and isinstance(value, float):
            setattr(model.config, name, 0.0)
    rng = np.random.default_rng(1)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            drawn = np.asarray(rng.standard_normal(tuple(p.shape)) * 0.03, np.float32)
            scale = p.dim() == 1 and name.endswith("weight")
            p.copy_(torch.from_numpy(np.asarray(drawn + np.float32(scale))))
    return model


def timed(run: Callable[[], Any], wait: Callable[[], None]) -> float:
    """Milliseconds of a call, the median of 3 to 8."""
    for _ in range(2):
        run()
    wait()
    took: list[float] = []
    while len(took) < 3 or (len(took) < 8 and sum(took) < 250):
        begin = time.perf_counter()
        run()
        wait()
        took.append(1e3 * (time.perf_counter() - begin))
    return round(statistics.median(took), 3)


def row_of(name: str, model: Any, batch: dict[str, Any]) -> dict[str, Any]:
    """What is compared and timed of a network."""

    def wait() -> None:
        next(model.parameters()).flatten()[0].item()  # what was asked for before is done, too

    model.train()
    begin = time.perf_counter()
    loss = model(**batch).loss
    loss.backward()
    found: dict[str, Any] = {"name": name, "loss": float(loss.detach())}
    named = sorted(model.named_parameters())
    found["gradients"] = [0.0 if p.grad is None else float(p.grad.norm()) for _, p in named]
    found["first_s"] = round(time.perf_counter() - begin, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def train(call: Any) -> None:
        optimizer.zero_grad()
        call(**batch).loss.backward()
        optimizer.step()

    def ask(call: Any) -> Any:
        with torch.no_grad():
            return call(**batch).loss

    calls = {"": model, "_compiled": torch.compile(model)} if COMPILED else {"": model}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for end, call in calls.items():
            model.train()
            found[f"trained{end}"] = timed(lambda call=call: train(call), wait)
            model.eval()
            found[f"asked{end}"] = timed(lambda call=call: ask(call), wait)
        if COMPILED:
            losses = [float(ask(call)) for call in calls.values()]
            found["compiled_differs"] = abs(losses[0] - losses[1])
    uncompiled = [str(w.message) for w in said if "runs uncompiled" in str(w.message)]
    return found | {"uncompiled": uncompiled[:1]}


def run(results: Path, names: Iterable[str], device: str, *, small: bool) -> None:
    """Run networks, and append a line for each to a file."""
    if COMPILED and device != "cpu":
        torch.cuda.use(device)
    place = torch.device("cpu" if device == "cpu" else "cuda")
    if device == "cpu":
        torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    sizes = Sizes(small=small)
    known = encoders(sizes) | decoders(sizes) | translators(sizes) | pictures(sizes)
    given = batches(sizes, place)
    with results.open("a") as file:
        for name in names or known:
            make, batch = known[name]
            try:
                found = row_of(name, filled(make()).to(place), given[batch])
            except Exception as error:
                found = {"name": name, "error": f"{type(error).__name__}: {error}"[:400]}
            print(json.dumps(found), file=file, flush=True)
            shown = {k: v for k, v in found.items() if k != "gradients"}
            print(shown, flush=True)


def compare(theirs: Path, ours: Path) -> int:
    """Print both sides' figures; gives how many networks failed or differ."""
    rows = [{r["name"]: r for r in map(json.loads, p.open())} for p in (theirs, ours)]
    ratios: dict[str, list[float]] = {each: [] for each in TIMES}
    bad = 0
    print("network | loss, theirs and ours | gradients differ by | theirs / ours ms = ratio")
    for name, them in rows[0].items():
        us = rows[1].get(name, {"error": "not run"})
        if failed := [r["error"] for r in (them, us) if "error" in r]:
            bad += 1
            print(f"{name} | {failed}")
            continue
        largest = max(them["gradients"])
        pairs = zip(them["gradients"], us["gradients"], strict=True)
        worst = max(abs(a - b) for a, b in pairs) / largest
        bad += worst > 1e-3 or abs(them["loss"] - us["loss"]) > 1e-4
        times = []
        for each in TIMES:
            if each in us:
                theirs_ms = them[each.removesuffix("_compiled")]
                ratios[each].append(theirs_ms / us[each])
                times.append(f"{each} {theirs_ms} / {us[each]} = {ratios[each][-1]:.2f}")
        losses = f"{them['loss']:.5f} {us['loss']:.5f}"
        print(f"{name} | {losses} | {worst:.0e} | {', '.join(times)} | {us['uncompiled']}")
    for each, found in ratios.items():
        if found:
            mean = math.exp(statistics.fmean(map(math.log, found)))
            print(f"{each}: {mean:.2f}, least {min(found):.2f}, of {len(found)}")
    return bad


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("run", "compare"))
    parser.add_argument("results", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--small", action="store_true")
    args = parser.parse_intermixed_args()
    if args.what == "compare":
        return compare(args.results, Path(*args.names))
    run(args.results, args.names, args.device, small=args.small)
    return 0


if __name__ == "__main__":
    sys.exit(main())
