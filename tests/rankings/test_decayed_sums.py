"""`decayed_sums` and its rules as a primitive, against a formula over all pairs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrank._core import platforms
from jaxrank._core.decays import Schedule, decayed_sums
from tests.helpers.suites import quick, thorough

# Outputs and inputs, of which one is 1; for powers 1 to 6, and for one power on one side.
MANY = np.random.default_rng(1).standard_normal((2, 1, 2, 6))
KINDS = {
  "outputs": MANY,
  "inputs": MANY.swapaxes(0, 1),
  "one": np.array([0.0, 1.0]).reshape(1, 1, 2, 1),
}


# The rules of the primitive for batches, transposes and derivatives name no platform.
short = pytest.mark.parametrize("n", [21])
on_cpu, on_gpu = (pytest.mark.parametrize("platform", [x], indirect=True) for x in ("cpu", "gpu"))


@pytest.fixture(params=["cpu", "gpu"], autouse=True)
def platform(request):
  with platforms.forced(request.param):
    yield request.param


@pytest.fixture(params=[21, 300])
def n(request):
  """Few items, of which all pairs are summed if there are many powers, and more."""
  return request.param


def arguments(coefficients, n, seed=0):
  """Descending scores with ties and a wide gap, a temperature, and weights."""
  rng = np.random.default_rng(seed)
  score = np.sort(np.round(rng.standard_normal(n), 1))[::-1].copy()
  score[-3:] -= 100
  weights = rng.standard_normal((coefficients.shape[1], n))
  return tuple(jnp.asarray(x, jnp.float32) for x in (score, 0.5, weights))


def sums(coefficients, score, temperature, w, *group, stored=False):
  return decayed_sums(coefficients, (score, *group), temperature, w, Schedule(2, stored))


def pairs(coefficients, score, temperature, w, *group):
  """The same over all pairs."""
  n = score.size
  rise = jnp.where(np.tri(n, dtype=bool), 1, -1) * (score[None, :] - score[:, None])
  side = np.where(np.tri(n, dtype=bool), 0, 1)
  same = (group[0][None, :] == group[0][:, None]) if group else np.ones((n, n), bool)
  other = jnp.where(same & ~np.eye(n, dtype=bool), 1.0, 0.0)
  found = 0
  for power in range(coefficients.shape[-1]):
    x = jnp.exp(-(power + 1) * rise / temperature) * other
    found += jnp.einsum("kmij,ij,mj->ki", coefficients[..., power][:, :, side], x, w)
  return found.astype(w.dtype)


def same(ours, theirs, tolerance=2e-6):
  scale = max(1.0, float(np.abs(theirs).max()))
  np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * scale)


# The inputs are those of `test_stored_sums_and_slopes`, and of the transposes of the outputs.
@quick("kind", ["outputs", "one"], ["outputs"])
def test_values(kind, n):
  c = KINDS[kind]
  score, *rest = arguments(c, n)
  group = jnp.repeat(jnp.arange(3), n // 3)
  rising = jnp.concatenate([x + i for i, x in enumerate(jnp.split(score, 3))])

  @jax.jit
  def both(score, rising, *rest):
    ways = sums, pairs
    return [[way(c, score, *rest), way(c, rising, *rest, group)] for way in ways]

  for ours, theirs in zip(*both(score, rising, *rest), strict=True):
    same(ours, theirs)


@pytest.mark.parametrize("kind", ["outputs", "one"])
def test_only_short_lists_take_all_pairs(kind, n, platform):
  c = KINDS[kind]
  program = jax.jit(functools.partial(sums, c)).lower(*arguments(c, n)).as_text()
  # A CPU takes them for many powers only.
  short = n == 21 and (kind != "one" or platform != "cpu")
  assert (f"tensor<{n}x{n}x" in program) == short


@thorough
@on_gpu
@pytest.mark.parametrize("kind", ["outputs", "inputs"])
def test_stored_sums_and_slopes(kind):
  c = KINDS[kind]
  stored = functools.partial(sums, stored=True)
  with jax.enable_x64(True):
    given = tuple(x.astype(jnp.float64) for x in arguments(c, 300))

    def slopes(sums):
      return jax.grad(lambda *x: jnp.sum(jnp.sin(sums(c, *x))), (0, 1, 2))(*given)

    same(stored(c, *given), pairs(c, *given), 1e-11)
    for ours, theirs in zip(slopes(stored), slopes(pairs), strict=True):
      same(ours, theirs, 1e-11)


@short
@on_cpu
@quick(
  ("kind", "axes"),
  [
    ("outputs", (0, 0, 0)),
    ("inputs", (None, None, 1)),
    ("outputs", (0, None, None)),
    ("inputs", (None, 0, None)),
  ],
  [("outputs", (0, 0, 0)), ("inputs", (None, None, 1))],
)
def test_batches(kind, axes, n):
  c = KINDS[kind]
  each = [arguments(c, n, seed) for seed in range(3)]
  each = [(s, t * (1 + i), w) for i, (s, t, w) in enumerate(each)]
  given = [
    jnp.stack([x[i] for x in each], axis=axis) if axis is not None else each[0][i]
    for i, axis in enumerate(axes)
  ]
  found = jax.jit(jax.vmap(functools.partial(sums, c), in_axes=axes))(*given)
  for row in range(3):
    alone = [each[row if axis is not None else 0][i] for i, axis in enumerate(axes)]
    same(found[row], sums(c, *alone), 1e-6)


@short
@on_cpu
@quick("kind", ["inputs", "one"], ["inputs"])
def test_the_transpose_exchanges_inputs_and_outputs(kind, n):
  c = KINDS[kind]
  score, temperature, w = arguments(c, n)
  out = jnp.asarray(np.random.default_rng(2).standard_normal((len(c), n)), jnp.float32)
  both = jax.jit(
    lambda out: [
      jax.linear_transpose(functools.partial(f, c, score, temperature), w)(out)[0]
      for f in (sums, pairs)
    ]
  )
  same(*both(out))


@short
@on_gpu
@quick("kind", ["inputs", "outputs"], ["inputs"])
def test_first_and_second_derivatives(kind, n):
  c = KINDS[kind]
  with jax.enable_x64(True):
    given = tuple(x.astype(jnp.float64) for x in arguments(c, n))
    # Without the wide gap, at which the exponents of the formula over all pairs are not clipped.
    given = (given[0].at[-3:].add(98), *given[1:])
    rng = np.random.default_rng(3)
    mark = rng.standard_normal((len(c), n))
    along = tuple(jnp.asarray(rng.standard_normal(x.shape)) for x in given)

    def derivatives(f):
      def value(*args):
        return jnp.sum(mark * f(c, *args) ** 2)

      slope = jax.grad(value, argnums=(0, 1, 2))

      def rise(*args):
        return sum(jnp.sum(x * y) for x, y in zip(slope(*args), along, strict=True))

      forward = jax.jvp(slope, given, along)
      return (jax.jvp(value, given, along), *forward, jax.grad(rise, argnums=(0, 1, 2))(*given))

    for ours, theirs in zip(
      *(jax.tree.leaves(jax.jit(functools.partial(derivatives, f))()) for f in (sums, pairs)),
      strict=True,
    ):
      same(ours, theirs, 1e-11)


@short
@on_cpu
def test_without_jit(n):
  c = KINDS["outputs"]
  given = arguments(c, n)
  expected = jax.jit(functools.partial(sums, c))(*given)
  with jax.disable_jit():
    np.testing.assert_array_equal(sums(c, *given), expected)
    vmapped = jax.vmap(functools.partial(sums, c), in_axes=(None, None, 0))
    same(vmapped(*given[:2], given[2][None])[0], expected, 1e-6)
