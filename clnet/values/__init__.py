"""What everything may know: dtypes, shapes, settings, the mode, random streams, whole files.

What is in the room:

- **Numbers and shapes**: `dtypes` (and `absent_dtypes`), `shapes`, `words` for layouts; `plain`
  tells kinds of values, `foreign` knows other libraries' tensors.
- **Calls**: `arguments` checks them by their `annotation`, as PyTorch spells them by `spelling`;
  `declared` constructors follow from fields. `override` lets classes take over, and `place` is
  where a function is found.
- **How ops run just now**: `mode`; `settings` of the environment; `generator` of random numbers.
- **What compiled functions ask**: `changes`, `programs`, `varying`.
- **Files**: `atomic` ones, the `cache` and the `cache_file` in which it travels.
- **Processes and threads**: `process`, `polling`, `futures`, and `exchanges` for whoever looks on.
- **Python, made cheaper**: `record`, `lazy`, `pattern`, `importer`, `collector`, `containers`;
  `returned` has the classes of what functions give.
"""
