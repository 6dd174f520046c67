"""The tape and the walk back along it; :mod:`clnet.autograd` is its public face.

What is in the room:

- **The tape**: `tape` has its nodes, `saved` what they keep. `overwrite` is a write in place,
  `data` a tensor's memory without the tape, `move` a copy on another device, `recompute` a
  checkpoint, `custom` a user's gradient.
- **The walk back**: `walk`, from what users hand in, `given`, to the leaves, `leaf`. `kept_walk`
  launches again what an equal graph launched, `parts` joins gradients of slices, `tensor_hook` are
  users' hooks, `anomaly` looks for NaN, `divided` measures gradients that ranks share.
- **What users call**: `gradient` is ``autograd.grad``, beside `functional`, `gradcheck`,
  `variable`, and what they read of the tape, `graph_face`. `decorated` functions run in a mode.
- **Functions of functions**: `vmap`, by `batched` tensors (`custom_batch`, `axes`); `dual` tensors
  carry tangents; `stateless` calls of modules; `structure` is what functions take and return.
"""
