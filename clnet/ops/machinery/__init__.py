"""How an op is declared, asked of its arguments, and run; no op is declared here.

What is in the room:

- **An op**: `function` says what it is and exports it. Those of symbols are `pointwise` (on complex
  numbers `paired`), with their `gradients`; `fused` and `update` ones overwrite inputs. Others that
  no family owns are `another` view, `boundary`, `constant`, `crossing` between devices, and
  `derived` results.
- **Its operands**: `promotion` and `whole_number` say in which dtype they meet, `autocast` in which
  they are computed, `laid` how the result lies.
- **Running it**: `execution` infers, lowers and enqueues; `lowering` looks up what came before,
  `first_use` computes twice what a driver has not run yet.
"""
