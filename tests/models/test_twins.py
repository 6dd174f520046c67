"""Networks that torchvision lacks, against hand-written ones in PyTorch: results and gradients."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import models
from clnet.bench import diffusion_twin, zoo_twins
from clnet.errors import ArgumentError, ShapeError

pytestmark = pytest.mark.device

BERT = models.BertConfig(13, 8, 1, 2, 12, 6, 2, 0.0, 0.0)
LLAMA = models.LlamaConfig(13, 16, 12, 2, 4, 2, 8)
RNG = np.random.default_rng(0)
WORDS = RNG.integers(0, 13, (2, 5))
OTHERS = RNG.integers(0, 11, (2, 4))
IMAGES = RNG.standard_normal((2, 3, 32, 32)).astype(np.float32)
NOISE = RNG.standard_normal((2, 6)).astype(np.float32)
UNIT = RNG.random((2, 3, 4), np.float32)
SEEN = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
STEPS = np.array([3, 500])


# By name: ours, the twin, the inputs.
CASES = {
    "mixer": (
        lambda: models.MLPMixer(8, 2, image_size=32, num_classes=5),
        lambda torch: zoo_twins.mixer(torch, 8, 2, 32, 5),
        (IMAGES,),
    ),
    "bert": (
        lambda: models.Bert(BERT),
        lambda torch: zoo_twins.bert(torch, BERT),
        (WORDS, SEEN, SEEN),
    ),
    "llama": (
        lambda: models.Llama(LLAMA),
        lambda torch: zoo_twins.llama(torch, LLAMA),
        (WORDS,),
    ),
    "translator": (
        lambda: models.Translator(
            13, 11, emb_size=8, nhead=2, num_layers=1, dim_feedforward=32, dropout=0.0
        ),
        lambda torch: zoo_twins.translator(torch, 13, 11, 8, 2, 1),
        (WORDS, OTHERS),
    ),
    "generator": (
        lambda: models.DCGANGenerator(6, 2),
        lambda torch: zoo_twins.generator(torch, 6, 2),
        (NOISE[:, :, None, None],),
    ),
    "discriminator": (
        lambda: models.DCGANDiscriminator(2),
        lambda torch: zoo_twins.discriminator(torch, 2),
        (np.tile(IMAGES, (1, 1, 2, 2)),),
    ),
    "vae": (
        lambda: models.VAE(12, 8, 6),
        lambda torch: zoo_twins.vae(torch, 12, 8, 6),
        (UNIT, NOISE),
    ),
    "tagger": (
        lambda: models.GRUTagger(13, 5, embedding_dim=6, hidden_size=6),
        lambda torch: zoo_twins.tagger(torch, 13, 5, 6, 2),
        (WORDS,),
    ),
    "diffusion": (
        lambda: models.DiffusionUNet(
            8, ch=8, ch_mult=(1, 2), num_res_blocks=1, attn_resolutions=(4,), groups=4, dropout=0.0
        ),
        lambda torch: diffusion_twin.diffusion(torch, 8, (1, 2), 1, (False, True), 4),
        (IMAGES[:, :, :8, :8], STEPS),
    ),
}


def first(result):
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_the_twins(name):
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    make, twin, inputs = CASES[name]
    clnet.manual_seed(0)
    torch.manual_seed(0)
    ours, theirs = make(), twin(torch)
    values = {key: value.detach().numpy() for key, value in theirs.named_parameters()}
    assert [(k, tuple(p.shape)) for k, p in ours.named_parameters()] == [
        (k, v.shape) for k, v in values.items()
    ]
    ours.load_state_dict({k: clnet.tensor(v) for k, v in values.items()}, strict=False)
    got, wanted = (
        first(model(*map(library.tensor, inputs)))
        for library, model in ((clnet, ours), (torch, theirs))
    )
    np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=1e-4, atol=1e-5)
    slope = np.linspace(-1, 1, wanted.numel(), dtype=np.float32).reshape(wanted.shape)
    for library, result in ((clnet, got), (torch, wanted)):
        (result * library.tensor(slope)).sum().backward()
    slopes = {k: p.grad for k, p in theirs.named_parameters()}
    largest = max(float(s.abs().max()) for s in slopes.values() if s is not None)
    for key, parameter in ours.named_parameters():
        if slopes[key] is None:
            assert parameter.grad is None, key
            continue
        np.testing.assert_allclose(
            parameter.grad.numpy(), slopes[key].numpy(), rtol=1e-3, atol=1e-5 * largest, err_msg=key
        )


def test_loss_of_the_autoencoder_is_the_twins():
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    drawn = (UNIT.reshape(2, 12)[:, ::-1].copy(), UNIT, NOISE, NOISE[::-1].copy())
    got = models.vae_loss(*map(clnet.tensor, drawn)).item()
    assert got == pytest.approx(zoo_twins.vae_loss(torch, *map(torch.tensor, drawn)).item(), 1e-5)


def test_autoencoder_draws_its_noise():
    clnet.manual_seed(0)
    model = models.VAE(12, 8, 6)
    one, two = (model(clnet.tensor(UNIT)) for _ in range(2))
    np.testing.assert_array_equal(one[1].detach().numpy(), two[1].detach().numpy())
    assert np.abs(one[0].detach().numpy() - two[0].detach().numpy()).max() > 1e-3


def test_kept_keys_give_what_the_whole_text_gives():
    clnet.manual_seed(0)
    model = models.Llama(LLAMA)
    for parameter in model.parameters():
        clnet.nn.init.normal_(parameter, 0.0, 0.3)
    words = clnet.tensor(WORDS)
    whole = model(words).detach().numpy()
    past, found = None, []
    for part in (words[:, :2], words[:, 2:4], words[:, 4:]):
        scores, past = model.extend(part, past)
        found.append(scores.detach().numpy())
    np.testing.assert_allclose(np.concatenate(found, 1), whole, rtol=1e-4, atol=1e-5)
    assert [tuple(k.shape) for k, _ in past] == [(2, 2, 5, 4)] * 2

    text = model.generate(words, 3).numpy()
    assert text.shape == (2, 8)
    np.testing.assert_array_equal(text[:, :5], WORDS)
    for step in range(5, 8):  # without kept keys
        likeliest = model(clnet.tensor(text[:, :step])).detach().numpy()[:, -1].argmax(-1)
        np.testing.assert_array_equal(text[:, step], likeliest)
    with pytest.raises(ShapeError, match="max_position_embeddings long at most"):
        model.extend(words[:, :4], past)


@pytest.mark.parametrize(
    ("make", "error", "law"),
    [
        (lambda: models.LlamaConfig(num_attention_heads=3), ArgumentError, "number of pairs"),
        (lambda: models.LlamaConfig(num_key_value_heads=3), ArgumentError, "share each head"),
        (lambda: models.BertConfig(num_attention_heads=5), ArgumentError, "divides hidden_size"),
        (lambda: models.MLPMixer(8, 1, image_size=33), ShapeError, "whole patches"),
        (lambda: models.DiffusionUNet(30), ArgumentError, "halved between levels"),
        (
            lambda: models.Bert(BERT)(clnet.zeros(1, 7, dtype=clnet.int64)),
            ShapeError,
            "max_position_embeddings",
        ),
        (
            lambda: models.Translator(9, 9, emb_size=8, nhead=2, num_layers=1, longest=4)(
                clnet.zeros(1, 5, dtype=clnet.int64), clnet.zeros(1, 2, dtype=clnet.int64)
            ),
            ShapeError,
            "as long as the positions",
        ),
    ],
)
def test_sizes_that_do_not_fit_are_refused(make, error, law):
    with pytest.raises(error, match=law):
        make()
