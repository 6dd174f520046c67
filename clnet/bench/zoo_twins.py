"""Networks of ``clnet.models`` that torchvision lacks, once more in PyTorch.

Parameters have the same names; a twin is made of the module ``torch`` and of its sizes.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any


def mixer(torch: Any, dim: int, depth: int, image_size: int, num_classes: int) -> Any:
    """The twin of :class:`clnet.models.MLPMixer`."""
    nn, patches = torch.nn, (image_size // 16) ** 2

    class Dense(nn.Module):
        def __init__(self, features: int, hidden: int) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(features, hidden), nn.Linear(hidden, features)

        def forward(self, x: Any) -> Any:
            return self.fc2(nn.functional.gelu(self.fc1(x)))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.mlp_tokens = nn.LayerNorm(dim, 1e-6), Dense(patches, dim // 2)
            self.norm2, self.mlp_channels = nn.LayerNorm(dim, 1e-6), Dense(dim, 4 * dim)

        def forward(self, x: Any) -> Any:
            x = x + self.mlp_tokens(self.norm1(x).mT).mT
            return x + self.mlp_channels(self.norm2(x))

    class Mixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.ModuleDict({"proj": nn.Conv2d(3, dim, 16, 16)})
            self.blocks = nn.Sequential(*(Block() for _ in range(depth)))
            self.norm, self.head = nn.LayerNorm(dim, 1e-6), nn.Linear(dim, num_classes)

        def forward(self, x: Any) -> Any:
            x = self.stem["proj"](x).flatten(2).mT
            return self.head(self.norm(self.blocks(x)).mean(1))

    return Mixer()


def bert(torch: Any, config: Any) -> Any:
    """The twin of :class:`clnet.models.Bert`, without dropout."""
    nn, width = torch.nn, config.hidden_size
    embeddings, layer = _bert_embeddings(torch, config), _bert_layer(torch, config)

    class Bert(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embeddings = embeddings()
            layers = [layer() for _ in range(config.num_hidden_layers)]
            self.encoder = nn.ModuleDict({"layer": nn.ModuleList(layers)})
            self.pooler = nn.ModuleDict({"dense": nn.Linear(width, width)})

        def forward(self, words: Any, mask: Any = None, types: Any = None) -> Any:
            x = self.embeddings(words, torch.zeros_like(words) if types is None else types)
            mask = None if mask is None else mask.bool()[:, None, None, :]
            for one in self.encoder["layer"]:
                x = one(x, mask)
            return x, torch.tanh(self.pooler["dense"](x[:, 0]))

    return Bert()


def _bert_embeddings(torch: Any, config: Any) -> Any:
    nn, width, eps = torch.nn, config.hidden_size, config.layer_norm_eps

    class Embeddings(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.word_embeddings = nn.Embedding(config.vocab_size, width, padding_idx=0)
            self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
            self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
            self.LayerNorm = nn.LayerNorm(width, eps)

        def forward(self, words: Any, types: Any) -> Any:
            place = torch.arange(words.shape[1], device=words.device)
            x = self.word_embeddings(words) + self.token_type_embeddings(types)
            return self.LayerNorm(x + self.position_embeddings(place))

    return Embeddings


def _bert_layer(torch: Any, config: Any) -> Any:
    nn, width, eps = torch.nn, config.hidden_size, config.layer_norm_eps

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query = nn.Linear(width, width)
            self.key = nn.Linear(width, width)
            self.value = nn.Linear(width, width)

        def forward(self, x: Any, mask: Any) -> Any:
            def parted(y: Any) -> Any:
                return y.unflatten(-1, (config.num_attention_heads, -1)).transpose(1, 2)

            q, k, v = parted(self.query(x)), parted(self.key(x)), parted(self.value(x))
            y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return y.transpose(1, 2).flatten(2)

    class Output(nn.Module):
        def __init__(self, features: int) -> None:
            super().__init__()
            self.dense, self.LayerNorm = nn.Linear(features, width), nn.LayerNorm(width, eps)

        def forward(self, y: Any, x: Any) -> Any:
            return self.LayerNorm(self.dense(y) + x)

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            between = config.intermediate_size
            self.attention = nn.ModuleDict({"self": Attention(), "output": Output(width)})
            self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, between)})
            self.output = Output(between)

        def forward(self, x: Any, mask: Any) -> Any:
            x = self.attention["output"](self.attention["self"](x, mask), x)
            return self.output(nn.functional.gelu(self.intermediate["dense"](x)), x)

    return Layer


def gpt(torch: Any, words: int, longest: int, blocks: int, heads: int, width: int) -> Any:
    """The twin of :class:`clnet.models.GPT`, without dropout."""
    nn, block = torch.nn, _gpt_block(torch, heads, width)

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wte, self.wpe = nn.Embedding(words, width), nn.Embedding(longest, width)
            self.h = nn.ModuleList([block() for _ in range(blocks)])
            self.ln_f = nn.LayerNorm(width)
            self.lm_head = nn.Linear(width, words, bias=False)
            self.lm_head.weight = self.wte.weight

        def forward(self, tokens: Any) -> Any:
            x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
            for one in self.h:
                x = one(x)
            return self.lm_head(self.ln_f(x))

    return GPT()


def _gpt_block(torch: Any, heads: int, width: int) -> Any:
    nn = torch.nn

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x: Any) -> Any:
            q, k, v = (
                part.unflatten(-1, (heads, -1)).transpose(1, 2)
                for part in self.c_attn(x).split(width, 2)
            )
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.c_proj(y.transpose(1, 2).flatten(2))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(width), Attention(), nn.LayerNorm(width)
            wide, back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.mlp = nn.Sequential()
            for name, part in (("c_fc", wide), ("gelu", nn.GELU("tanh")), ("c_proj", back)):
                self.mlp.add_module(name, part)

        def forward(self, x: Any) -> Any:
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    return Block


def llama(torch: Any, config: Any) -> Any:
    """The twin of :class:`clnet.models.Llama`; points are turned as complex numbers."""
    nn, width, head = torch.nn, config.hidden_size, config.head
    layer, eps = _llama_layer(torch, config), config.rms_norm_eps

    class Llama(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = [layer() for _ in range(config.num_hidden_layers)]
            parts = {"embed_tokens": nn.Embedding(config.vocab_size, width)}
            parts |= {"layers": nn.ModuleList(layers), "norm": nn.RMSNorm(width, eps)}
            self.model = nn.ModuleDict(parts)
            self.lm_head = nn.Linear(width, config.vocab_size, bias=False)

        def forward(self, words: Any) -> Any:
            x, device = self.model["embed_tokens"](words), words.device
            powers = torch.arange(0, head, 2, device=device) / head
            places = torch.arange(words.shape[1], device=device).float()
            angles = torch.outer(places, config.rope_theta**-powers)
            turns = torch.polar(torch.ones_like(angles), angles)
            for one in self.model["layers"]:
                x = one(x, turns)
            return self.lm_head(self.model["norm"](x))

    return Llama()


def _llama_layer(torch: Any, config: Any) -> Any:
    nn, width, head, eps = torch.nn, config.hidden_size, config.head, config.rms_norm_eps

    def turned(x: Any, turns: Any) -> Any:
        real, imaginary = x.float().unflatten(-1, (2, -1)).unbind(-2)
        y = torch.complex(real, imaginary) * turns
        return torch.cat([y.real, y.imag], -1)

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            shared = config.num_key_value_heads * head
            self.q_proj = nn.Linear(width, width, bias=False)
            self.k_proj = nn.Linear(width, shared, bias=False)
            self.v_proj = nn.Linear(width, shared, bias=False)
            self.o_proj = nn.Linear(width, width, bias=False)

        def forward(self, x: Any, turns: Any) -> Any:
            q, k, v = (
                project(x).unflatten(-1, (-1, head)).transpose(1, 2)
                for project in (self.q_proj, self.k_proj, self.v_proj)
            )
            times = config.num_attention_heads // config.num_key_value_heads
            k, v = turned(k, turns).repeat_interleave(times, 1), v.repeat_interleave(times, 1)
            y = nn.functional.scaled_dot_product_attention(turned(q, turns), k, v, is_causal=True)
            return self.o_proj(y.transpose(1, 2).flatten(2))

    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate_proj = nn.Linear(width, config.intermediate_size, bias=False)
            self.up_proj = nn.Linear(width, config.intermediate_size, bias=False)
            self.down_proj = nn.Linear(config.intermediate_size, width, bias=False)

        def forward(self, x: Any) -> Any:
            return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.self_attn, self.mlp = Attention(), Dense()
            self.input_layernorm = nn.RMSNorm(width, eps)
            self.post_attention_layernorm = nn.RMSNorm(width, eps)

        def forward(self, x: Any, turns: Any) -> Any:
            x = x + self.self_attn(self.input_layernorm(x), turns)
            return x + self.mlp(self.post_attention_layernorm(x))

    return Layer


def translator(torch: Any, src: int, tgt: int, width: int, heads: int, layers: int) -> Any:
    """The twin of :class:`clnet.models.Translator`, four times as wide between, no dropout."""
    nn = torch.nn

    class Translator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.transformer = nn.Transformer(
                width, heads, layers, layers, 4 * width, 0.0, batch_first=True
            )
            self.generator = nn.Linear(width, tgt)
            self.src_tok_emb = nn.ModuleDict({"embedding": nn.Embedding(src, width)})
            self.tgt_tok_emb = nn.ModuleDict({"embedding": nn.Embedding(tgt, width)})
            places = torch.arange(5000).float()[:, None]
            angles = places * torch.exp(torch.arange(0, width, 2) * (-log(10000.0) / width))
            values = torch.zeros(5000, width)
            values[:, 0::2], values[:, 1::2] = angles.sin(), angles.cos()
            self.register_buffer("places", values)

        def forward(self, x: Any, y: Any) -> Any:
            seen, wanted = (
                table["embedding"](words) * sqrt(width) + self.places[: words.shape[1]]
                for table, words in ((self.src_tok_emb, x), (self.tgt_tok_emb, y))
            )
            mask = nn.Transformer.generate_square_subsequent_mask(y.shape[1], device=y.device)
            return self.generator(self.transformer(seen, wanted, tgt_mask=mask))

    return Translator()


def generator(torch: Any, nz: int, ngf: int) -> Any:
    """The twin of :class:`clnet.models.DCGANGenerator`."""
    nn = torch.nn
    layers, sizes = [], [nz, 8 * ngf, 4 * ngf, 2 * ngf, ngf]
    for i in range(4):
        up = nn.ConvTranspose2d(sizes[i], sizes[i + 1], 4, 2 if i else 1, min(i, 1), bias=False)
        layers += [up, nn.BatchNorm2d(sizes[i + 1]), nn.ReLU(True)]
    layers += [nn.ConvTranspose2d(ngf, 3, 4, 2, 1, bias=False), nn.Tanh()]
    return _under_main(nn, layers)


def discriminator(torch: Any, ndf: int) -> Any:
    """The twin of :class:`clnet.models.DCGANDiscriminator`."""
    nn = torch.nn
    layers = [nn.Conv2d(3, ndf, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True)]
    for size in (ndf, 2 * ndf, 4 * ndf):
        layers += [nn.Conv2d(size, 2 * size, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * size)]
        layers.append(nn.LeakyReLU(0.2, True))
    layers += [nn.Conv2d(8 * ndf, 1, 4, 1, 0, bias=False), nn.Sigmoid(), nn.Flatten(0)]
    return _under_main(nn, layers)


def _under_main(nn: Any, layers: list[Any]) -> Any:
    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.main = nn.Sequential(*layers)

        def forward(self, x: Any) -> Any:
            return self.main(x)

    return Network()


def vae(torch: Any, features: int, hidden: int, latent: int) -> Any:
    """The twin of :class:`clnet.models.VAE`, which is given its noise."""
    nn = torch.nn

    class VAE(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1 = nn.Linear(features, hidden)
            self.fc21, self.fc22 = nn.Linear(hidden, latent), nn.Linear(hidden, latent)
            self.fc3, self.fc4 = nn.Linear(latent, hidden), nn.Linear(hidden, features)

        def forward(self, x: Any, noise: Any) -> Any:
            h = torch.relu(self.fc1(x.flatten(1)))
            mean, spread = self.fc21(h), self.fc22(h)
            z = torch.addcmul(mean, noise, torch.exp(spread / 2))
            return torch.sigmoid(self.fc4(torch.relu(self.fc3(z)))), mean, spread

    return VAE()


def vae_loss(torch: Any, result: Any, x: Any, mean: Any, spread: Any) -> Any:
    """What :func:`clnet.models.vae_loss` gives."""
    wrong = torch.nn.functional.binary_cross_entropy(result, x.flatten(1), reduction="sum")
    return wrong - 0.5 * torch.sum(1 + spread - mean.pow(2) - spread.exp())


def tagger(torch: Any, words: int, tags: int, features: int, layers: int) -> Any:
    """The twin of :class:`clnet.models.GRUTagger`, without dropout."""
    nn = torch.nn

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(words, features)
            self.gru = nn.GRU(features, features, layers, batch_first=True, bidirectional=True)
            self.hidden2tag = nn.Linear(2 * features, tags)

        def forward(self, x: Any) -> Any:
            return self.hidden2tag(self.gru(self.embedding(x))[0])

    return Tagger()
