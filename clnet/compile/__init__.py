"""Record a function's launches once, replay them afterwards.

What is in the room, in the order of a first call:

- **The call**: `entry` is ``clnet.compile``, `compiled` looks for a plan that fits among
  `kept_plans`, or has one made; `renewal` says how often, `shared_objects` beside which others.
- **What a plan depends on**: `arguments`, told apart by `fingerprint`; what the function finds by
  name, `outer`, as far as its code may reach, `reachable`, looked at by identity where that is
  enough, `settled`; modules and optimisers, `guards`. Numbers that may vary are `numbers`, found
  in `slots`, chosen by `varied`; Python's and NumPy's random numbers are `drawn`.
- **The trace**: `record` runs the function on abstract tensors, `tracer` writes down its ops,
  `answers` is what it knows of values, and `trace` is what passes see. `differentiable` is the
  backward of results on the tape, `found_gradients` are those that were there, `states` are
  tensors that are replaced where they lie.
- **Passes** rewrite it, in the order of `passes`: `activations`, `as_values`, `by_columns`,
  `channels_last`, `epilogue`, `fold_batch_norm`, `fuse`, `fuse_attention`, `fuse_into_products`,
  `join_products`, `join_slices`, `layout`, `merge_updates`, `narrow_losses`, `narrow_sums`,
  `pack_weights`, `pad_rows`, `prologue`, `rematerialize`, `simplify`, `split_batch_norm`,
  `turn_weights`, `wait_late`, `work_first`. They share `pointwise_step`, `convolution`, `forms`
  with its rules `layout_rules` and `last_rules`, and `fusion_obstacle`.
- **The plan**: `regions` gives each value its place by `packing`, `plan` binds the launches,
  `replay` runs them; `spanning` is a plan of several devices. `left_gradients` and `finish` make of
  a replay what a call leaves and returns.
- **For a reader**: `explain` and `explain_steps`.
"""

from .compiled import Compiled
from .entry import compile, compile_module
from .plan import Plan
from .record import Recorded, record
from .trace import Trace

__all__ = ["Compiled", "Plan", "Recorded", "Trace", "compile", "compile_module", "record"]
