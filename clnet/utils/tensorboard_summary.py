"""``clnet.utils.tensorboard.summary``: what TensorBoard's table of settings reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError

__all__ = ["hparams"]


def hparams(
    hparam_dict: Mapping[str, Any],
    metric_dict: Mapping[str, Any],
    hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
) -> tuple[Any, Any, Any]:
    """Settings of a run and names of its figures, for TensorBoard's table that compares runs.

    Args:
        hparam_dict: settings by name: numbers, booleans, texts, tensors of one element; None is
            left out.
        metric_dict: figures by name; the table shows the scalars of these names.
        hparam_domain_discrete: by a setting's name all values that it may have.

    Returns:
        TensorBoard's ``Summary`` of the experiment, of the session's start and of its end.

    Raises:
        ArgumentError: if one is no dict, a value is none of these, or a domain is of no setting or
            of another type than its setting.
    """
    api_pb2, metadata, parts, _ = _board()
    domains = {} if hparam_domain_discrete is None else hparam_domain_discrete
    for name, given in (("hparam_dict", hparam_dict), ("metric_dict", metric_dict)):
        if not isinstance(given, Mapping):
            raise ArgumentError("hparams", f"{name} is a dict", type=type(given).__name__)
    for name, values in domains.items():
        kind = type(hparam_dict.get(name))
        if name not in hparam_dict or not all(isinstance(value, kind) for value in values):
            law = "hparam_domain_discrete has lists of values by the names of settings"
            raise ArgumentError("hparams", law, name=name)
    start = parts.SessionStartInfo()
    settings = []
    for name, value in hparam_dict.items():
        if value is None:
            continue
        key, written = _field(name, value)
        setattr(start.hparams[name], key, written)
        kind = "DATA_TYPE_STRING" if key == "string_value" else "DATA_TYPE_FLOAT64"
        info = api_pb2.HParamInfo(name=name, type=api_pb2.DataType.Value(kind))
        for choice in domains.get(name, ()):
            info.domain_discrete.append(_field(name, choice)[1])
        settings.append(info)
    figures = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag)) for tag in metric_dict]
    experiment = api_pb2.Experiment(hparam_infos=settings, metric_infos=figures)
    end = parts.SessionEndInfo(status=api_pb2.Status.Value("STATUS_SUCCESS"))
    return (
        _summary(metadata.EXPERIMENT_TAG, experiment=experiment),
        _summary(metadata.SESSION_START_INFO_TAG, session_start_info=start),
        _summary(metadata.SESSION_END_INFO_TAG, session_end_info=end),
    )


def _field(name: str, value: Any) -> tuple[str, Any]:
    """Where TensorBoard has a value, and the value; booleans are numbers, as in PyTorch."""
    if isinstance(value, str):
        return "string_value", value
    host = value.detach().numpy() if hasattr(value, "detach") else np.asarray(value)
    if host.size != 1 or host.dtype.kind not in "biuf":
        law = "a setting is a number, a boolean, a text or a tensor of one element"
        raise ArgumentError("hparams", law, name=name, type=type(value).__name__)
    return "number_value", float(host.reshape(()))


def _board() -> tuple[Any, Any, Any, Any]:
    """TensorBoard's modules, which are optional, and whose classes are made as they run."""
    from tensorboard.compat.proto import summary_pb2  # noqa: PLC0415 - optional
    from tensorboard.plugins.hparams import (  # noqa: PLC0415 - optional
        api_pb2,
        metadata,
        plugin_data_pb2,
    )

    return api_pb2, metadata, plugin_data_pb2, summary_pb2


def _summary(tag: str, **content: Any) -> Any:
    _, metadata, parts, summary_pb2 = _board()
    data = parts.HParamsPluginData(version=metadata.PLUGIN_DATA_VERSION, **content)
    plugin = summary_pb2.SummaryMetadata.PluginData(
        plugin_name=metadata.PLUGIN_NAME, content=data.SerializeToString()
    )
    value = summary_pb2.Summary.Value(
        tag=tag, metadata=summary_pb2.SummaryMetadata(plugin_data=plugin)
    )
    return summary_pb2.Summary(value=[value])
