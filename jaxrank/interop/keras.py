"""Losses and metrics for Keras 3 on JAX, which the extra `keras` installs.

`compile(loss=Loss("softmax"), metrics=[Metric("nDCG@10")])` trains a model that scores lists. Keras
passes labels first, and functions of jaxrank take scores first: a function such as
`jaxrank.losses.softmax` as the loss of `compile` would train on swapped arguments, without an
error.

A row of `y_pred`, `[batch, n]`, or `[batch, n, 1]` as from `Dense(1)`, has the scores of one query,
and `y_true`, `[batch, n]` or of the shape of `y_pred`, its labels. Scores are cast to the dtype of
the loss or metric, float32 by default; labels keep their dtype.

Cells with the label `padding`, by default -1, hold no item. Any other negative label is an unjudged
item, as everywhere in jaxrank. With `padding=float("nan")` cells whose label is NaN are padding,
and with `padding=None` no label marks padding, so that -1 is unjudged, too. A Keras mask of
`y_pred` marks padding besides. Keras on JAX shows it to losses, and to metrics in `evaluate`, but
not to metrics in `fit`, as of version 3.15; labels mark padding everywhere. A row without an item
is no query, and is in no mean.

`sample_weight`, `[batch]` or `[batch, 1]`, weighs queries, as `query_weights` does everywhere in
jaxrank. Weights of items, `[batch, n]`, are the argument `weights` of a loss that has it.
`docs/pipelines.md` trains a model.
"""

import functools
import inspect
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrank import losses
from jaxrank._core import checks, description
from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.ranked import Ranking
from jaxrank.interop import _configs
from jaxrank.measures import Measure
from jaxrank.measures.grammar import one_measure, read_measures
from jaxrank.measures.measure import Measures, One
from jaxrank.rankings.exact import Exact
from jaxrank.streaming import Evaluator, State
from jaxrank.streaming.evaluator import Empty

try:
  import keras

  # It has no public name. `keras.Loss` reads masks with it.
  from keras.src.backend import get_keras_mask
except ModuleNotFoundError as error:
  if str(error.name).startswith("keras"):
    raise
  raise ImportError(
    f"jaxrank.interop.keras: Keras finds no {error.name}, which its backend needs; set "
    "KERAS_BACKEND=jax in the environment before Keras is imported."
  ) from error

__all__ = ["Loss", "Metric"]

# The losses that learn from labels alone.
_LOSSES = {
  name: getattr(losses, name)
  for name in losses.__all__
  if {"labels", "teacher"} & {*inspect.signature(getattr(losses, name)).parameters} == {"labels"}
}

# What to do about scores `[batch, 1]`, as of a model that scores single items.
_ROWS = "the items of a query are a row: give the model features [batch, n, ...]."


class _Lists(NamedTuple):
  """A batch as functions of jaxrank take it.

  Attributes:
    scores: `[batch, n]`.
    labels: `[batch, n]`, or `[batch, n, subtopics]`.
    where: `[batch, n]`, boolean, False on padding.
    query_weights: `[batch]`, or None.
    weights: `[batch, n]`, the weights of items, or None.
  """

  scores: Array
  labels: Array
  where: Array
  query_weights: Array | None
  weights: Array | None


@keras.saving.register_keras_serializable("jaxrank")
class Loss(keras.losses.Loss):
  """A ranking loss for `compile`, with one value for each list.

  >>> import jaxrank as jr
  >>> y_true, y_pred = [[1, 0, -1], [0, 2, 1]], [[0.5, 0.2, 9.0], [0.1, 0.3, 0.2]]
  >>> print(f"{Loss('softmax')(y_true, y_pred):.4f}")  # the first list has two items
  1.8301
  >>> smooth = Loss("nDCG@2", ranking=jr.Laplace(0.5))  # one minus the metric
  >>> print(Loss("approx_ndcg", reduction=None, ranking=jr.Logistic(0.1))(y_true, y_pred).round(3))
  [0.033 0.155]

  Args:
    loss: The name of a loss of `jaxrank.losses` that takes scores and labels, such as `"softmax"`;
      a function `loss(scores, labels, where=where, **parameters)` of arrays `[batch, n]` that
      returns `[batch]`; or a metric, a `jaxrank.Measure` or the name of a measure, such as
      `jaxrank.ndcg` or `"nDCG@10"`. The loss is then one minus the metric, or the metric itself
      where less is better, under the smooth ranking that `ranking` gives.
    name: The name of the loss; None takes that of `loss`.
    reduction: How the values of the lists become one, as in `keras.losses.Loss`; padding counts
      as cells do that a mask excludes.
    dtype: The dtype of the scores; None takes `keras.config.floatx()`.
    padding: The label that marks padding, perhaps NaN; None if no label does.
    **parameters: Parameters of the loss or metric, such as `temperature=0.5`.

  Raises:
    RuntimeError: if Keras does not run on JAX.
    TypeError: if `loss` is none of these, or does not take the parameters. `get_config`, which
      saving a model calls, if Keras cannot write a parameter, or a metric that `jaxrank.metric`
      made is not registered by `keras.saving.register_keras_serializable()`.
    ValueError: if a name is unknown, or a metric has no smooth ranking. In training, if shapes do
      not fit, the loss does not return a value for each list, or it takes no weights of items.

  Warns:
    UserWarning: if lists have a single item, which no order can rank better.
  """

  def __init__(
    self,
    loss: str | One,
    *,
    name: str | None = None,
    reduction: str | None = "sum_over_batch_size",
    dtype: Any = None,
    padding: float | None = -1,
    **parameters: Any,
  ):
    _check_backend("keras.Loss")
    with checks.named("keras.Loss"):
      self._function, self._given, own_name = _read(loss, parameters)
      self.padding = _checked_padding(padding)
    super().__init__(name=name or own_name, reduction=reduction, dtype=dtype)
    self.loss, self.parameters = loss, parameters

  def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Array:
    """The loss of a batch.

    Args:
      y_true: Labels, `[batch, n]`, or in the shape of `y_pred`.
      y_pred: Scores, `[batch, n]` or `[batch, n, 1]`.
      sample_weight: Weights of the queries, `[batch]` or `[batch, 1]`; or of the items,
        `[batch, n]`; None is 1.

    Returns:
      A number, or `[batch]` without a reduction; 0 for a list without an item.
    """
    with checks.named("keras.Loss"):
      batch = _lists(y_true, y_pred, sample_weight, self.padding, self.dtype)
      values = self._values(batch)
    live = jnp.any(batch.where, axis=-1)
    counted = live.astype(values.dtype)
    weights = counted if batch.query_weights is None else counted * batch.query_weights
    values = jnp.where(live, values * weights, 0)
    if self.reduction in (None, "none"):
      return values
    if self.reduction == "sum":
      return jnp.sum(values)
    by_weight = self.reduction == "mean_with_sample_weight"
    return safe_divide(jnp.sum(values), jnp.sum(weights if by_weight else counted))

  def call(self, y_true: Any, y_pred: Any) -> Array:
    """The loss of each list, `[batch]`, without weights and reduction."""
    with checks.named("keras.Loss"):
      return self._values(_lists(y_true, y_pred, None, self.padding, self.dtype))

  def _values(self, batch: _Lists) -> Array:
    scores, labels, where, query_weights, weights = batch
    if query_weights is not None:
      # What a query of weight 0 holds does not matter.
      where = where & (query_weights != 0)[:, None]
    given = dict(self._given)
    if weights is not None:
      if not _takes(self._function, "weights"):
        raise ValueError(
          f"{self.name} takes no weights of items, and sample_weight has the shape of the scores, "
          f"{weights.shape}; pass one weight for each query, of shape {weights.shape[:1]}."
        )
      given["weights"] = weights
    values = self._function(scores, labels, where=where, **given)
    if getattr(values, "shape", None) != scores.shape[:1]:
      raise ValueError(
        f"{self.name} must return a value for each list, of shape {scores.shape[:1]}, got "
        f"{checks.told(values)}; do not take the mean over queries."
      )
    return values.astype(self.dtype)

  def get_config(self) -> dict[str, Any]:
    """The arguments of the loss, as plain values."""
    with checks.named("keras.Loss.get_config"):
      own = {"loss": self.loss, "padding": self.padding, **self.parameters}
      return super().get_config() | {"dtype": self.dtype} | _configs.saved(own)

  @classmethod
  def from_config(cls, config: Mapping[str, Any]) -> Self:
    """The loss with the arguments that `get_config` returned."""
    return cls(**_configs.restored(config))


@keras.saving.register_keras_serializable("jaxrank")
class Metric(keras.metrics.Metric):
  """The means of measures over lists, for `compile(metrics=[...])`.

  It is a `jaxrank.Evaluator` whose state is in variables of Keras. The means are over queries and
  not over batches, and weights are those of `weighted_metrics`. One measure has a number as its
  result, and several have a dictionary by name, which Keras writes into its logs under these names:
  `EarlyStopping("val_nDCG@10")`. For a measure among several, pass the callback its `mode`. Keras
  puts the names of outputs in front of single measures only: a model of several outputs needs a
  metric for each measure.

  >>> metric = Metric("nDCG@2 RR")
  >>> for y_true, y_pred in (([[0, 2, 1]], [[3.0, 2.0, 1.0]]), ([[0, 2, -1]], [[1.0, 2.0, 3.0]])):
  ...   metric.update_state(y_true, y_pred)
  >>> print({name: f"{value:.4f}" for name, value in metric.result().items()})
  {'nDCG@2': '0.7398', 'RR': '0.7500'}

  Args:
    measures: Names, metrics and measures, as `jaxrank.evaluate` takes them.
    name: The name of the metric; None takes those of the measures.
    dtype: The dtype of the scores and the result; None takes `keras.config.floatx()`.
    padding: The label that marks padding, perhaps NaN; None if no label does.
    empty: The policy for a query that holds nothing the metric seeks: `"zero"`, `"one"` or
      `"skip"`, as for `jaxrank.Evaluator`.
    ranking: The ranking of all measures, exact or smooth.

  Raises:
    RuntimeError: if Keras does not run on JAX.
    TypeError: if an argument has a wrong type. `get_config`, if Keras cannot write a measure, or a
      metric that `jaxrank.metric` made is not registered, as for `Loss`.
    ValueError: if a name or a policy is unknown, or there is no measure. In training, if shapes do
      not fit, or `sample_weight` weighs items.

  Warns:
    UserWarning: if lists have a single item, which no order can rank better.
  """

  def __init__(
    self,
    measures: Measures,
    *,
    name: str | None = None,
    dtype: Any = None,
    padding: float | None = -1,
    empty: Empty = "zero",
    ranking: Ranking = Exact(),
  ):
    _check_backend("keras.Metric")
    with checks.named("keras.Metric"):
      parsed = read_measures(measures)
      checks.choice("empty", empty, ("zero", "one", "skip"))
      padding = _checked_padding(padding)
    evaluator = Evaluator(parsed, empty=empty, ranking=ranking)
    super().__init__(name=name or " ".join(evaluator.names), dtype=dtype)
    self.measures = measures if isinstance(measures, str) else parsed
    self.evaluator, self.padding = evaluator, padding
    self._aggregations = tuple(x.description.aggregation for x in parsed)
    if len(parsed) == 1:
      # By it, callbacks know whether more is better.
      self._direction = "up" if parsed[0].description.higher_is_better else "down"
    leaves, self._structure = jax.tree.flatten(evaluator.init())
    self._first = tuple(map(np.asarray, leaves))
    for leaf in self._first:
      self.add_variable(leaf.shape, _Values(leaf), dtype=leaf.dtype.name)

  def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
    """Adds a batch of lists.

    Args:
      y_true: Labels, `[batch, n]`, or in the shape of `y_pred`; `[batch, n, subtopics]` for
        measures of diversity.
      y_pred: Scores, `[batch, n]` or `[batch, n, 1]`.
      sample_weight: Weights of the queries, `[batch]` or `[batch, 1]`; None is 1.
    """
    with checks.named("keras.Metric"):
      batch = _lists(y_true, y_pred, sample_weight, self.padding, self.dtype)
      if batch.weights is not None:
        raise ValueError(
          "sample_weight weighs queries here, and must have shape "
          f"{batch.weights.shape[:1]}, got that of the scores, {batch.weights.shape}; weights of "
          "items are the argument weights of a loss. Pass the metric in metrics= and not in "
          "weighted_metrics=."
        )
      state = self.evaluator.update(
        self._state(),
        batch.scores,
        batch.labels,
        where=batch.where,
        query_weights=batch.query_weights,
      )
    for variable, leaf in zip(self.variables, jax.tree.leaves(state), strict=True):
      variable.assign(leaf)

  def result(self) -> Array | dict[str, Array]:
    """The mean of each measure, or what its description calls for instead.

    Returns:
      A number for one measure, else numbers by name: 0 without queries, and NaN if a query had a
      NaN score or an invalid weight.
    """
    state = self._state()
    weight, mean = (pair.high + pair.low for pair in (state.moments.weight, state.moments.mean))
    values = {}
    for i, (name, how) in enumerate(zip(state.names, self._aggregations, strict=True)):
      value = weight[i] * mean[i] if how == "sum" else mean[i]
      if how == "exp_mean":
        value = jnp.where(weight[i] > 0, jnp.exp(value), 0)
      values[name] = jnp.where(state.invalid > 0, jnp.nan, value).astype(self.dtype)
    return values if len(values) > 1 else values[name]

  def reset_state(self) -> None:
    """Forgets all queries."""
    for variable, leaf in zip(self.variables, self._first, strict=True):
      variable.assign(leaf)

  def get_config(self) -> dict[str, Any]:
    """The arguments of the metric, as plain values."""
    with checks.named("keras.Metric.get_config"):
      own = {name: getattr(self.evaluator, name) for name in ("empty", "ranking")}
      own |= {"measures": self.measures, "padding": self.padding}
      return super().get_config() | _configs.saved(own)

  @classmethod
  def from_config(cls, config: Mapping[str, Any]) -> Self:
    """The metric with the arguments that `get_config` returned, and no query."""
    return cls(**_configs.restored(config))

  def _state(self) -> State:
    state: State = jax.tree.unflatten(self._structure, [x.value for x in self.variables])
    return state


class _Values(keras.initializers.Initializer):
  """The initializer of a variable with known values."""

  def __init__(self, values: np.ndarray):
    self.values = values

  def __call__(self, shape: Any, dtype: Any = None) -> Array:
    return jnp.asarray(self.values)


def _check_backend(name: str) -> None:
  backend = keras.config.backend()
  if backend != "jax":
    raise RuntimeError(
      f"{name}: Keras runs on {backend}, got a loss or a metric that JAX computes; set "
      "KERAS_BACKEND=jax in the environment before Keras is imported."
    )


def _checked_padding(padding: Any) -> float | None:
  if padding is not None:
    checks.number("padding", padding)
  return padding


def _read(
  loss: Any, parameters: Mapping[str, Any]
) -> tuple[Callable[..., Any], Mapping[str, Any], str | None]:
  """The function of scores, labels and mask, its parameters, and its name."""
  if isinstance(loss, str) and loss in _LOSSES:
    function, name = _LOSSES[loss], loss
  elif isinstance(loss, str | Measure) or description.of_metric(loss) is not None:
    return _read_metric(loss, **parameters)
  else:
    checks.function("loss", loss, "a function of (scores, labels, where=where), or a name")
    function, name = loss, getattr(loss, "__name__", "<lambda>")
  try:
    inspect.signature(function).bind(None, None, where=None, **parameters)
  except TypeError as error:
    raise TypeError(
      f"loss is called as loss(scores, labels, where=where, ...) with the parameters given, and "
      f"{checks.told(loss)} does not take them: {error}."
    ) from None
  return function, parameters, None if name == "<lambda>" else name


def _read_metric(
  metric: One, *, ranking: Ranking | None = None, **parameters: Any
) -> tuple[Callable[..., Any], Mapping[str, Any], str]:
  """One minus a metric, or a metric of which less is better, with its parameters and its name."""
  try:
    measure = one_measure(metric, parameters)
  except ValueError as error:
    raise ValueError(
      f"loss must be a function, a measure, or one of {', '.join(_LOSSES)}: {error}"
    ) from None
  if ranking is None or isinstance(ranking, Exact):
    raise ValueError(
      f"the metric {measure.name} has a gradient under a smooth ranking; pass "
      "ranking=jaxrank.Laplace(1.0)."
    )
  function = measure.metric
  if measure.description.higher_is_better:
    function = functools.wraps(function)(
      lambda *arrays, **given: 1 - measure.metric(*arrays, **given)
    )
  return function, {**measure.parameters, "ranking": ranking}, measure.name


def _takes(function: Callable[..., Any], name: str) -> bool:
  """Whether a function has an argument of this name, or any."""
  parameters = inspect.signature(function).parameters
  return name in parameters or any(x.kind is x.VAR_KEYWORD for x in parameters.values())


def _lists(
  y_true: Any, y_pred: Any, sample_weight: Any, padding: float | None, dtype: str
) -> _Lists:
  """The lists of a batch, without what marks padding."""
  mask = get_keras_mask(y_pred)
  scores = checks.array("y_pred", y_pred).astype(dtype)
  labels = checks.array("y_true", y_true)
  if scores.ndim == 3 and scores.shape[-1] == 1:
    labels = labels[..., 0] if labels.shape == scores.shape else labels
    scores = scores[..., 0]
  if scores.ndim != 2:
    raise ValueError(f"y_pred must have shape [batch, n] or [batch, n, 1], got {scores.shape}.")
  if labels.shape[:2] != scores.shape:
    advice = f"; {_ROWS}" if scores.shape[1] == 1 else "."
    raise ValueError(
      f"y_true must have the shape of the scores, {scores.shape}, got {labels.shape}{advice}"
    )
  if scores.shape[1] == 1:
    warnings.warn(
      f"y_pred has shape {scores.shape}, lists of one item, which no order can rank better; "
      f"{_ROWS}",
      stacklevel=4,
    )
  where = _real(labels, padding)
  if mask is not None:
    if mask.shape != scores.shape:
      raise ValueError(
        f"the Keras mask of y_pred must have the shape of the scores, {scores.shape}, got "
        f"{mask.shape}."
      )
    where = where & jnp.asarray(mask, bool)
  return _Lists(scores, labels, where, *_weights(sample_weight, scores))


def _real(labels: Array, padding: float | None) -> Array:
  """Which cells `[batch, n]` hold an item, by labels `[batch, n]` or `[batch, n, subtopics]`."""
  if padding is None:
    real = jnp.ones_like(labels, bool)
  elif math.isnan(padding):
    real = ~jnp.isnan(labels)
  else:
    # No unsigned label is negative.
    real = labels.astype(jnp.promote_types(labels.dtype, jnp.float32)) != padding
  return jnp.any(real, axis=-1) if real.ndim == 3 else real


def _weights(sample_weight: Any, scores: Array) -> tuple[Array | None, Array | None]:
  """The weights of queries and of items, of which one is None."""
  if sample_weight is None:
    return None, None
  batch = scores.shape[:1]
  weights = checks.array("sample_weight", sample_weight).astype(scores.dtype)
  if weights.ndim == 0 or weights.shape == (*batch, 1):
    weights = jnp.broadcast_to(weights.reshape(-1), batch)
  if weights.shape == batch:
    return weights, None
  if weights.shape == scores.shape:
    return None, weights
  raise ValueError(
    f"sample_weight must have shape {batch}, a weight for each query, or {scores.shape}, one for "
    f"each item, got {weights.shape}."
  )
