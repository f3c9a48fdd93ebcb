"""What a program computes, also where JAX has refused the rules of primitives.

The values and derivatives need every operation: sorts whose arrays travel along, ties, thresholds,
decayed sums, nodes, and lists that share an order. The lists have ties.
"""

import jax
import jax.numpy as jnp
import numpy as np

import jaxrank as jr

SCORES = jnp.array([[2.0, 0.5, 0.5, -1.0, 0.5, 3.0], [0.25, 0.0, 0.75, 0.25, 0.25, -2.0]])
LABELS = jnp.array([[1.0, 0.0, 2.0, 1.0, -1.0, 0.0], [0.0, 1.0, 0.0, 3.0, 1.0, 2.0]])
WHERE = jnp.array([[True] * 6, [True] * 5 + [False]])


def found():
  """Arrays by name."""

  def of(metric, /, **given):
    return lambda s: metric(s, LABELS, where=WHERE, **given)

  def loop(s):
    """JAX forgets the rules of `jax.custom_jvp` in second derivatives here."""
    half = of(jr.ndcg, k=3, ranking=jr.Laplace(0.7))
    return jax.lax.scan(lambda x, _: (x * half(s).sum(), None), 1.0, length=2)[0]

  exact = "nDCG@3 AP RR P@2"
  values = {
    "ndcg": of(jr.ndcg, k=3, ranking=jr.Laplace(0.7)),
    "ap": of(jr.average_precision, ranking=jr.Logistic(0.7)),
    "err": of(jr.err, max_label=3, k=4, ranking=jr.Gumbel(0.7)),
    "rr": of(jr.reciprocal_rank, ranking=jr.Gaussian(0.7)),
    "list_mle": of(jr.losses.list_mle),
    "lambda_rank": of(jr.losses.lambda_rank, metric=jr.average_precision),
  }
  others = {
    "exact err": of(jr.err, max_label=3),
    "exact": lambda s: [*jr.evaluate(exact, s, LABELS, where=WHERE).values()],
    "bends": jax.hessian(lambda s: values["ndcg"](s).sum()),
    "bends of a loop": jax.hessian(loop),
    "temperatures": lambda s: jax.vmap(
      jax.grad(lambda t: of(jr.average_precision, ranking=jr.Laplace(t))(s).sum())
    )(jnp.array([0.3, 1.0])),
  }
  slopes = {f"slopes of {name}": jax.grad(lambda s, f=f: f(s).sum()) for name, f in values.items()}
  asked = {**values, **slopes, **others}
  return jax.tree.map(np.asarray, {name: jax.jit(f)(SCORES) for name, f in asked.items()})


def save(path):
  """Writes the arrays to a file."""
  np.savez(path, **found())
