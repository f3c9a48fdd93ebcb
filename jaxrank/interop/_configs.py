"""Internals of `keras`: parameters as plain values, which the configuration of a model holds."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxrank import discounts, gains, losses, metrics, rankings
from jaxrank._core import checks
from jaxrank.measures import Measure

# What a configuration names: the functions and dataclasses of these modules. Nothing else of
# jaxrank is reachable from a file.
_PREFIXES = {"": (metrics, rankings), "losses.": (losses,)}
_PREFIXES |= {"gains.": (gains,), "discounts.": (discounts,)}
_NAMED: dict[str, Any] = {
  f"{prefix}{name}": value
  for prefix, modules in _PREFIXES.items()
  for module in modules
  for name in module.__all__
  if dataclasses.is_dataclass(value := getattr(module, name)) or not isinstance(value, type)
}
# The classes behind two functions.
_NAMED["gains.table"] = type(gains.table(np.zeros(1)))
_NAMED["gains.by_label"] = type(gains.by_label({0.0: 1.0}))
_NAMED["Measure"] = Measure
_NAMES = {value: name for name, value in _NAMED.items()}


def saved(parameters: Mapping[str, Any]) -> dict[str, Any]:
  """Parameters as numbers, strings, lists and dictionaries.

  Functions, gains, discounts, rankings and measures of jaxrank are named, and so is a metric of
  `jaxrank.metric` that is registered with `keras.saving`, which writes everything else.

  Raises:
    TypeError: if `keras.saving` cannot write one, or a metric is not registered.
  """
  return {name: _saved(name, x) for name, x in parameters.items()}


def _saved(name: str, x: Any) -> Any:
  if isinstance(x, list | tuple):
    return [_saved(name, entry) for entry in x]
  if isinstance(x, Mapping):
    return {key: _saved(name, value) for key, value in x.items()}
  if isinstance(x, Measure):
    parts = {"metric": x.metric, "name": x.name, "parameters": x.parameters}
    return {"jaxrank": "Measure", "fields": _saved(name, parts)}
  try:
    if x in _NAMES:
      return {"jaxrank": _NAMES[x]}
  except TypeError:  # It has no hash.
    pass
  if type(x) in _NAMES:
    parts = {field.name: getattr(x, field.name) for field in dataclasses.fields(x)}
    return {"jaxrank": _NAMES[type(x)], "fields": _saved(name, parts)}
  # The module `keras` imports Keras first, and explains why it cannot.
  import keras

  if isinstance(x, metrics.Metric):
    registered = keras.saving.get_registered_name(x)
    if keras.saving.get_registered_object(registered) is None:
      raise TypeError(
        f"{name} cannot be written to a configuration, got {checks.told(x)}: decorate it with "
        "keras.saving.register_keras_serializable(), above jaxrank.metric."
      )
    # As Keras writes a registered function. It would write the metric as an instance of its class.
    return {
      "module": "builtins",
      "class_name": "function",
      "config": registered,
      "registered_name": "function",
    }
  try:
    return keras.saving.serialize_keras_object(x)
  except Exception as error:
    raise TypeError(
      f"{name} cannot be written to a configuration, got {checks.told(x)}: pass a function that is "
      f"decorated with keras.saving.register_keras_serializable() and sets it ({error})."
    ) from error


def restored(config: Mapping[str, Any]) -> dict[str, Any]:
  """The parameters that `saved` wrote."""
  return {name: _restored(x) for name, x in config.items()}


def _restored(x: Any) -> Any:
  if isinstance(x, list | tuple):
    return tuple(map(_restored, x))
  if not isinstance(x, Mapping):
    return x
  if "class_name" in x:
    import keras

    return keras.saving.deserialize_keras_object(x)
  if "jaxrank" not in x:
    return {key: _restored(value) for key, value in x.items()}
  value = _NAMED.get(x["jaxrank"])
  if value is None or ("fields" in x and not isinstance(value, type)):
    raise ValueError(f"a configuration cannot name {x['jaxrank']!r} of jaxrank in this way.")
  if "fields" not in x:
    return value
  fields = restored(x["fields"])
  if value is Measure:
    return Measure(fields["metric"], name=fields["name"], **fields["parameters"])
  return value(**fields)
