"""Benchmarks that check their results before they time them.

``clnet bench NAME`` runs the module of that name (``allreduce``: ``exchange``, ``onnx``:
``onnx_model``, ``tinygrad``: ``beside_tinygrad``). The others are what those are made of:

- contests with PyTorch: ``contest`` times a ``workload`` on both sides (``side``), of which PyTorch
  is a ``peer`` with its own networks (``torch_networks``, ``zoo_twins``, ``diffusion_twin``), in a
  ``precision``; ``zoo_networks``, ``zoo_memory`` and ``imported`` are the zoo's, ``paper`` and
  ``chart`` stand beside Shi et al.'s table;
- other peers, in processes of their own: ``onnx_peers``, ``tinygrad_peer``;
- cases, and how they run: ``conv_layers``, ``conv_blocked`` (of ``conv --layout blocked``),
  ``bound_launches``, ``tuning_problems``, ``scaling_ways``;
- ``timing`` holds the stopwatch, ``limits`` what a device reaches at best.
"""
