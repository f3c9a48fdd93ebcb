"""Plants small bugs one at a time, and shows which quick test finds each.

Run `python -m tests.planted_bugs` from a clone, with the extra `test` installed. Every bug is
planted in a copy of the clone. The tests of its subject run first, then all quick tests; the
first one that fails has found it. The status is 1 if any bug is not found.
"""

import argparse
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Bug(NamedTuple):
  """A text of a file of the library that occurs once, and what stands there instead.

  Attributes:
    path: The file, below `jaxrank`.
    right: The text.
    wrong: The bug.
    subject: The folder or file of tests that runs first.
  """

  path: str
  right: str
  wrong: str
  subject: str


# It fails wherever a bug is planted.
_OF_THE_PLANTS = "tests/house/test_tests.py::test_planted_bugs_are_planted_in_what_is_there"

DEFINITIONS = "metrics/test_definitions.py"
LAWS = "metrics/test_laws.py"
LOSSES = "losses/test_losses.py"
BUGS = (
  # Constants and discounts.
  Bug("discounts.py", "return math.log(2.0) / jnp.log1p(rank)",
      "return math.log(2.0) / jnp.log1p(rank + 1)", DEFINITIONS),
  Bug("discounts.py", "return 1 / rank\n", "return 1 / (rank + 1)\n", DEFINITIONS),
  Bug("discounts.py", "self.persistence, rank.dtype) ** (rank - 1)",
      "self.persistence, rank.dtype) ** rank", DEFINITIONS),
  Bug("discounts.py", "first + step * (rank - 1)\n\n\n", "first + step * rank\n\n\n",
      "metrics/test_questions.py"),
  Bug("discounts.py", "np.log1p(rank))", "np.log(2 + rank))", "rankings"),
  Bug("gains.py", "jnp.exp2(jnp.clip(labels, 0, _MAX_LABEL)) - 1",
      "jnp.exp2(jnp.clip(labels, 0, _MAX_LABEL))", DEFINITIONS),
  Bug("gains.py", "return (labels > 0).astype", "return (labels >= 0).astype", DEFINITIONS),
  Bug("metrics/graded.py", "jnp.sum(chances * found)", "jnp.sum(chances[::-1] * found)",
      DEFINITIONS),
  Bug("metrics/binary.py", "return (1 - q) * ranked.expect", "return ranked.expect", DEFINITIONS),
  Bug("_core/pair_sums.py", "return Series(np.array([0.5])", "return Series(np.array([0.4])", LAWS),
  Bug("losses/listwise.py", "return gain(labels) + 0.5", "return gain(labels) + 1", LOSSES),
  # Exposure, and losses against a teacher.
  Bug("exposure/representation.py", "return jnp.sum(bits(p, apart) + bits(q, -apart), axis=-1)",
      "return jnp.sum(bits(p, apart) + bits(q, apart), axis=-1)", "exposure"),
  Bug("exposure/_inputs.py", "(ids < 0) | (ids >= count)", "(ids < 0) | (ids > count)", "exposure"),
  Bug("exposure/equity.py", "ranked.weighted(target)) ** 2)", "target) ** 2)", "exposure"),
  Bug("_core/integrands.py", "passed = (1 - given.lost) * again.above",
      "passed = 1 - given.lost", "rankings"),
  Bug("_core/integrands.py", "- again.ahead() * by", "+ again.ahead() * by", "rankings"),
  Bug("_core/integrands.py", "jnp.zeros_like(z), *args)[1]",
      "jnp.zeros_like(z), *args)[0]", "exposure"),
  Bug("losses/distillation.py", "(of_student - of_teacher) * t) * t)",
      "(of_student - of_teacher) * t))", "losses/test_distillation.py"),
  Bug("losses/distillation.py", "(rank - 1 - ranked.before(live)) ** 2",
      "(rank - ranked.before(live)) ** 2", "losses/test_distillation.py"),
  # NaN, gradients in float64 labels, and the laws themselves.
  Bug("_core/apply.py", "(_isnan(scores) | _of_item(_isnan(labels)))", "_isnan(scores)", LAWS),
  Bug("_core/sorting.py", "_dense(lax.stop_gradient(x), where)", "_dense(x, where)", LAWS),
  Bug("_core/sorting.py", "nothing + jnp.nan", "nothing + jnp.inf", "metrics/test_networks.py"),
  Bug("rankings/pairs.py", "score < lower_score, different + discordant",
      "score <= lower_score, different + discordant", "metrics/test_questions.py"),
  Bug("rankings/pairs.py", "if few else query.n - 1).bit_length()",
      "if few else query.n // 2).bit_length()", "metrics/test_questions.py"),
  Bug("_core/all_pairs.py", "constant_values=sorting.MASKED", "constant_values=sorting.MOST",
      "metrics/test_questions.py"),
  Bug("_core/ranked.py", "if current_trace() in self.traces:", "if self.traces:",
      "metrics/test_custom_metrics.py"),
  Bug("rankings/pairs.py", "both - discordant", "both", "metrics/test_questions.py"),
  Bug("_core/recorder.py", "discounts.constant and k is None and", "discounts.constant and",
      "metrics/test_contract.py"),
  Bug("_core/networks.py", "row ^ (2**phase - 1)", "row", "metrics/test_networks.py"),
  Bug("_core/networks.py", "(ends.max, ends.min)", "(ends.max, ends.max)",
      "metrics/test_networks.py"),
  Bug("_core/sorting.py", "lax.select(lax.ge(slot, first), value, out)",
      "lax.select(lax.gt(slot, first), value, out)", "metrics/test_networks.py"),
  Bug("_core/sorting.py", "MASKED - bits, bits)", "~bits ^ MASKED, bits)", LAWS),
  Bug("rankings/exact.py", "inside = inside & (means > 0)", "inside = inside & (means >= 0)",
      "metrics/test_questions.py"),
  Bug("_core/apply.py", "unmasked and scores.shape[-1] > 0", "unmasked",
      "measures/test_measures.py"),
  Bug("_core/apply.py", "where if nan else where & ~_isnan(x)", "where", "soft"),
  Bug("_core/decayed_sums.py", "swapaxes(0, 1)[:, :, ::-1]", "swapaxes(0, 1)",
      "rankings/test_decayed_sums.py"),
  Bug("_core/decayed_sums.py", "terms = [(-steep, w", "terms = [(steep, w",
      "rankings/test_decayed_sums.py"),
  Bug("_core/decayed_sums.py", '"cpu": (0, 56)', '"cpu": (0, 560)',
      "rankings/test_decayed_sums.py"),
  Bug("_core/decayed_sums.py", "np.any(c != 0, axis=(0, 1))) > _FEW",
      "np.any(c != 0, axis=(0, 1, 2))) > _FEW", "rankings/test_decayed_sums.py"),
  Bug("_core/decayed_sums.py", "if len(batch) > 2 else 0", "if len(batch) > 3 else 0",
      "devices/test_blocks.py"),
  Bug("_core/ties.py", "return found.astype(w.dtype)", "return w", DEFINITIONS),
  Bug("_core/cascades.py", "going ** (rank - 1)", "going ** rank", "metrics/test_normalizers.py"),
  Bug("_core/cascades.py", "jnp.sum(cascades.weights * ranked.each_user(of_user, worth))",
      "jnp.sum(ranked.each_user(of_user, worth))", "metrics/test_diversity.py"),
  Bug("_core/all_pairs.py", "return pair(lower, upper, *constants)",
      "return pair(upper, lower, *constants)", "losses/test_pairs.py"),
  Bug("_core/pair_sums.py", "jnp.log(w + behind)", "jnp.log(behind)",
      "losses/test_log_sums.py"),
  Bug("rankings/perturbed.py", "concatenate([first == 0, wide])",
      "concatenate([first == 0, gap >= widest])", "rankings/test_perturbed.py"),
  Bug("_core/pair_sums.py", "jnp.asarray(math.exp(-size), z.dtype)", "0",
      "losses/test_log_sums.py"),
  Bug("_core/decays.py", "here + passed * before", "here + before",
      "rankings/test_decayed_sums.py"),
  Bug("_core/decays.py", "jnp.where(i != j, polynomial(c, x), 0)", "polynomial(c, x)",
      "rankings/test_decayed_sums.py"),
  Bug("losses/lambdas.py", "(query.n - slots(query.keys))", "(-slots(query.keys))",
      "losses/test_pairs.py"),
  Bug("losses/swaps.py", "going = jnp.maximum(1 - query.mean(stop), _LEAST)",
      "going = 1 - query.mean(stop)", "losses/test_swaps.py"),
  Bug("losses/swaps.py", "sum_ + c * (d - e)", "sum_ + b * (d - e)", "losses/test_swaps.py"),
  Bug("testing/asking.py", "(np.isnan(x) & np.isnan(y))", "(np.isnan(x) | np.isnan(y))", "testing"),
  Bug("testing/laws.py", "replaced(law.case, ~valid, np.nan, np.nan)", "law.case", "testing"),
  # Signs.
  Bug("metrics/binary.py", "return (limit - jnp.minimum(rank - 1, found))",
      "return (limit + jnp.minimum(rank - 1, found))", DEFINITIONS),
  Bug("rankings/exact.py", 'sign = 1 if self.rule == "optimistic" else -1',
      'sign = -1 if self.rule == "optimistic" else 1', DEFINITIONS),
  Bug("losses/pairwise.py", "better, x = y > other_y, margin - (z - other_z)",
      "better, x = y > other_y, margin + (z - other_z)", LOSSES),
  Bug("losses/swaps.py", "sign = 1 if about.higher_is_better else -1", "sign = 1",
      "losses/test_swaps.py"),
  Bug("losses/lambdas.py", "  x = z - other_z", "  x = other_z - z", LOSSES),
  Bug("losses/_loss.py", "value: Array = 1 - found.value", "value: Array = found.value", LOSSES),
  Bug("ranks/target.py", "count(where & (scores > score))", "count(where & (scores < score))",
      "ranks"),
  Bug("corpus/search.py", "counts = (x + y - z for", "counts = (x + y + z for", "corpus"),
  Bug("corpus/_standing.py", "tally.above - dropped[0]", "tally.above + dropped[0]", "corpus"),
  Bug("corpus/_standing.py", "jnp.where(place.start < 0, sorting.take(block, at)",
      "jnp.where(place.start <= 0, sorting.take(block, at)", "corpus"),
  Bug("_core/long_ties.py", "weighted + _DIRECT * rest + lost", "weighted + lost", "corpus"),
  Bug("_core/long_ties.py", "several = jnp.where(chosen > 1", "several = jnp.where(chosen > 2",
      "corpus"),
  Bug("rankings/counted.py", "share * further", "further", "corpus"),
  Bug("rankings/counted.py", "here = listed + other * (above + tied / 2)",
      "here = listed + other * above", "corpus"),
  Bug("rankings/counted.py", "    self.unknown.append(jnp.any(unknown))\n", "", "corpus"),
  Bug("stats/randomization.py", "else (reached + 1) / (flips + 1)", "else reached / flips",
      "stats"),
  Bug("stats/randomization.py", "jnp.max(totals, axis=-1) - jnp.min",
      "jnp.max(totals, axis=-1) + jnp.min", "stats"),
  Bug("stats/bootstrap.py", "scale = 1 - acceleration * z", "scale = 1 + acceleration * z",
      "stats"),
  Bug("stats/_student.py", "freedom * (u - 0.5", "(freedom - 1) * (u - 0.5", "stats"),
  Bug("stats/corrections.py", "p.shape[-1] - before, 1 + before",
      "p.shape[-1] - 1 - before, 1 + before", "stats"),
  Bug("agreement.py", "far > longer, (most - common) / far", "far > longer, most / far",
      "agreement"),
  Bug("agreement.py", "for first in (None, start))", "for first in (None, None))", "agreement"),
  Bug("_core/sorting.py", "scatter(count + passed, target)", "scatter(count, target) + passed",
      "agreement"),
  Bug("catalogue/lists.py", "one, two = safe_divide(m, t), safe_divide(m * (m - 1), t * (t - 1))",
      "one, two = safe_divide(m, t), safe_divide(m * m, t * t)", "catalogue"),
  Bug("catalogue/counts.py", "(2 * rank - self.items - 1)", "(2 * rank - self.items)", "catalogue"),
  # Masks, and what is not retrieved or not judged.
  Bug("losses/_loss.py", "jnp.where((z == top) & jnp.isinf(top), 0, z - jnp",
      "jnp.where(z == jnp.nan, 0, z - jnp", LOSSES),
  Bug("metrics/counts.py", "others = ranked.where & ~ranked.relevant(rel)",
      "others = ~ranked.relevant(rel)", DEFINITIONS),
  Bug("metrics/binary.py", "others = ranked.judged & ~b", "others = ranked.where & ~b",
      DEFINITIONS),
  Bug("rankings/exact.py", "value = jnp.where(live, self._ranked(w.astype(self.dtype)), 0)",
      "value = self._ranked(w.astype(self.dtype))", DEFINITIONS),
  Bug("rankings/exact.py", "return Slots(key, key > sorting.LOST)",
      "return Slots(key, key >= sorting.LOST)", DEFINITIONS),
  Bug("losses/_loss.py", "known = jnp.where(live, gain, 0)", "known = gain", LOSSES),
  Bug("losses/pairwise.py", "jnp.where(query.retrieved, gains.linear(query.labels), jnp.nan)",
      "gains.linear(query.labels)", LOSSES),
  Bug("class_labels.py", "(candidates == query[..., None]) & (query >= 0)[..., None]",
      "candidates == query[..., None]", "metrics/test_class_labels.py"),
  Bug("streaming/batch.py", "valid = (live & proper)[..., None]", "valid = live[..., None]",
      "streaming"),
  Bug("padding/padding.py", "where = np.arange(length) < sizes[:, None]",
      "where = np.arange(length) <= sizes[:, None]", "padding"),
  # Cut-offs.
  Bug("rankings/exact.py", "inside = rank <= jnp.asarray(self.n if k is None else k)",
      "inside = rank < jnp.asarray(self.n if k is None else k)", DEFINITIONS),
  Bug("metrics/binary.py", "count = jnp.minimum(count, ranked.cutoff(k))",
      "count = jnp.maximum(count, ranked.cutoff(k))", DEFINITIONS),
  Bug("rankings/perturbed.py", "inside = rank <= jnp.asarray(depth if k is None else k)",
      "inside = rank < jnp.asarray(depth if k is None else k)", "rankings"),
  Bug("losses/lambdas.py", "deep > query.cutoff(k)", "deep >= query.cutoff(k)", LOSSES),
  # Means over ties.
  Bug("_core/ties.py", "jnp.where(start < k, share, 0)", "jnp.where(start < k, mean, 0)",
      DEFINITIONS),
  Bug("_core/ties.py", "_difference(table, start, end + 1)", "_difference(table, start, end)",
      DEFINITIONS),
  Bug("_core/ties.py", "(_by_products(sums) - sums)", "_by_products(sums)",
      "metrics/test_platforms.py"),
  Bug("_core/networks.py", "most * -(-(phase + 1) // most)", "most",
      "metrics/test_networks.py"),
  Bug("_core/permutations.py", "default=lambda x: sorting.scatter(x, item))",
      "default=lambda x: sorting.take(x, item))", "metrics/test_platforms.py"),
  Bug("_core/permutations.py", "sorting.by_operands(place, x)[1]",
      "sorting.by_operands(item, x)[1]", "metrics/test_platforms.py"),
  Bug("_core/ties.py", "jnp.where(slot < end, below(up), 0)", "below(up)",
      "metrics/test_platforms.py"),
  Bug("_core/ties.py", "start[..., None] == start[..., None, :]",
      "start[..., None] >= start[..., None, :]", "metrics/test_platforms.py"),
  Bug("_core/sorting.py", "index + _BLOCK * slots(values[..., ::_BLOCK])[..., None]", "index",
      "metrics/test_platforms.py"),
  Bug("_core/cascades.py", "here = 1 / item.astype(stop.dtype)",
      "here = 1 / (item + 1).astype(stop.dtype)", DEFINITIONS),
  Bug("_core/cascades.py", "alive * (1 - missed) * value(1 + ahead + place)",
      "alive * (1 - missed) * value(ahead + place)", DEFINITIONS),
  Bug("rankings/exact.py", "* (both - chosen * weight)", "* (both + chosen * weight)", DEFINITIONS),
  Bug("rankings/exact.py", "outside = (total + worth(last + 1)) / (members + 1)",
      "outside = total / (members + 1)", DEFINITIONS),
  Bug("ranks/target.py", "0.5 * (best + worst)", "0.5 * (best + worst + 1)", "ranks"),
  Bug("losses/likelihood.py", "at_rank * (whole.rest + fewer)", "at_rank * whole.rest", LOSSES),
  Bug("losses/likelihood.py", "share = jnp.clip(safe_divide((cut - start)",
      "share = jnp.clip(safe_divide((cut + 1 - start)", "soft"),
  Bug("plackett_luce.py", "below + jnp.log(jnp.where(placed, left[:-1], 1))",
      "below + jnp.where(placed, left[:-1], 1)", "soft"),
  Bug("rankings/thresholds.py", "jnp.where(size > 0, needed, at_zero)",
      "needed", "rankings/test_smooth_cutoff.py"),
  Bug("rankings/thresholds.py", "jnp.where(between, other, -jnp.inf)",
      "jnp.full_like(x, -jnp.inf)", "soft"),
  # Normalisers.
  Bug("metrics/graded.py", "at_ranks(ranked.best(gain, weights, k=k), discount))",
      "at_ranks(ranked.best(gain, None, k=k), discount))", DEFINITIONS),
  Bug("metrics/counts.py", "(1 + square) * hits", "(2 + square) * hits", DEFINITIONS),
  Bug("metrics/counts.py", 'if divisor == "retrieved" else', 'if divisor != "retrieved" else',
      DEFINITIONS),
  Bug("metrics/estimates.py",
      'ranked.cutoff(k) if divisor == "k" else seen(ranked, k)', "ranked.cutoff(k)", DEFINITIONS),
  Bug("metrics/counts.py", 'if divisor in ("relevant", "attainable"):',
      'if divisor == "relevant":', DEFINITIONS),
  Bug("metrics/estimates.py", "pooled = ahead + misses + waiting", "pooled = ahead + misses",
      DEFINITIONS),
  Bug("metrics/gain_curves.py", "jnp.where(best > 0, best, 1)", "best", DEFINITIONS),
  Bug("metrics/gain_curves.py", "> 1 + ranked.count(", "> ranked.count(", DEFINITIONS),
  Bug("metrics/user_models.py", "reached[-1] * _tail(", "0 * _tail(", DEFINITIONS),
  Bug("metrics/overlap.py", "jnp.maximum(t - h, 1))", "t)", DEFINITIONS),
  Bug("metrics/stopping.py", "jnp.where(rank > found, discount(rank), 0)", "discount(rank)",
      DEFINITIONS),
  Bug("metrics/concordance.py", "(jnp.cumsum(others) - others / 2)", "jnp.cumsum(others)",
      DEFINITIONS),
  Bug("_core/arithmetic.py", "return jnp.ceil(share - slack)", "return jnp.floor(share + slack)",
      DEFINITIONS),
  Bug("losses/listwise.py", "loss /= jnp.where(some, total, 1)", "loss /= 1", LOSSES),
  Bug("aggregation.py", "jnp.sum(jnp.where(kept, weights, 0)))\n",
      "jnp.sum(kept, dtype=values.dtype))\n", "measures"),
  # A loss whose candidates are split over devices.
  Bug("losses/listwise.py", "largest = lax.pmax(largest, axis_name)", "largest = largest",
      "devices"),
  # Merges of states, and their statistics.
  Bug("streaming/summary.py", "weight.sum(-2), square.sum(-2)", "weight.sum(0), square.sum(0)",
      "streaming"),
  Bug("streaming/summary.py", 'np.where(how == "sum", found.weight, slope)',
      'np.where(how == "sum", 1, slope)', "streaming"),
  Bug("streaming/batch.py", 'how != "exp_mean" for how', 'how != "sum" for how', "streaming"),
  Bug("streaming/moments.py", "share = safe_divide(b.weight.high, weight.high)",
      "share = safe_divide(a.weight.high, weight.high)", "streaming"),
  Bug("streaming/moments.py", "between = jnp.square(gap + rest) * share * a.weight.high",
      "between = jnp.square(gap + rest) * share * b.weight.high", "streaming"),
  Bug("streaming/summary.py", "    a.count + b.count,\n", "    a.count,\n", "streaming"),
  Bug("streaming/summary.py", "total - _divided(square, total), np.nan)", "total, np.nan)",
      "streaming"),
  Bug("streaming/reservoir.py", "return merge(new, sample)",
      "return merge(new, sample)._replace(seed=sample.seed)", "streaming"),
  # Gradients: the values stay right.
  Bug("losses/_loss.py", "push += missed * share / total", "push += 0", LOSSES),
  Bug("losses/_loss.py", "(z == top) & jnp.isinf(top)", "z == top", "interop/test_boosting.py"),
  Bug("losses/_loss.py", "jnp.minimum(worth, bound) * drop", "worth * drop", LOSSES),
  Bug("_core/arithmetic.py", "= first + jnp.sum(more[0]), second + jnp.sum(more[1])",
      "= first, second", LOSSES),
  Bug("_core/arithmetic.py", "(first[0] + first[1], second[0] + second[1])",
      "(first[0], second[0])", LOSSES),
  Bug("_core/ties.py", "return mean(*primals), sum_ / (end - start + 1).astype(w.dtype)",
      "return mean(*primals), sum_", LAWS),
  Bug("_core/pair_sums.py", "math.sqrt(2 * math.pi) * dv", "math.sqrt(math.pi) * dv", LAWS),
  Bug("_core/pair_sums.py", "return normal_tail(v), -jnp.exp", "return normal_tail(v), jnp.exp",
      LAWS),
  Bug("rankings/perturbed.py", "return (self.score - head) / self.temperature - base",
      "return lax.stop_gradient((self.score - head) / self.temperature) - base", "rankings"),
  Bug("rankings/expected_rank.py",
      "gap = distance(self.score[:-1], self.score[1:], self.temperature)",
      "gap = lax.stop_gradient(distance(self.score[:-1], self.score[1:], self.temperature))",
      LAWS),
  Bug("losses/likelihood.py", "return jnp.where(query.retrieved, jnp.maximum(z, nothing), nothing)",
      "return lax.stop_gradient(jnp.where(query.retrieved, jnp.maximum(z, nothing), nothing))",
      LOSSES),
  Bug("rankings/thresholds.py", "_EXACT_STEPS = 2", "_EXACT_STEPS = 0", "soft"),
  Bug("rankings/expected_rank.py", "return jnp.where(inside, mask, (k > 0)",
      "return jnp.where(inside | True, mask, (k > 0)", "soft"),
  Bug("rankings/expected_rank.py", "self._weight(members) * self.kept(k, among))",
      "self._weight(members))", "rankings/test_smooth_cutoff.py"),
  Bug("rankings/expected_rank.py", "self._weight_ahead(kept * jnp.log1p(",
      "self._weight_ahead(jnp.log1p(", "rankings/test_smooth_cutoff.py"),
  Bug("rankings/expected_rank.py", "wall = kept * wall.astype(self.dtype)",
      "wall = wall.astype(self.dtype)", "rankings/test_smooth_cutoff.py"),
  Bug("rankings/expected_rank.py", "last = self.largest_items(k - 0.5, among)",
      "last = self.largest_items(k, among)", "metrics/test_questions.py"),
  Bug("_core/quadrature.py", "pairs[..., ::-1, :]", "pairs[..., :, :]", "soft"),
  Bug("losses/lambdas.py", "jnp.where(positive, -x, x) * (1 / scale)",
      "lax.stop_gradient(jnp.where(positive, -x, x)) * (1 / scale)",
      "losses/test_second_derivatives.py"),
  # Chance, sampling, files and adapters.
  Bug("chance/shuffled.py", "jnp.maximum(1 - relevant / left, 0)",
      "jnp.maximum(1 - 0.9 * relevant / left, 0)", "chance"),
  Bug("chance/shuffled.py", "squares = (size + 1) * jnp.sum(jnp.square(v))",
      "squares = size * jnp.sum(jnp.square(v))", "chance"),
  Bug("ranks/medians.py", "return 0.5 * (low + high)", "return low", "ranks"),
  Bug("interop/_boosting.py", "values[bucket.rows] = np.asarray(x).reshape(-1)[bucket.cells]",
      "values[np.sort(bucket.rows)[::-1]] = np.asarray(x).reshape(-1)[bucket.cells]",
      "interop/test_boosting.py"),
  Bug("losses/curvature.py", "return 2 * _diagonal_of_pairs(", "return _diagonal_of_pairs(",
      "interop/test_boosting.py"),
  Bug("losses/curvature.py", "return grade > jnp.min(", "return grade >= jnp.min(",
      "interop/test_boosting.py"),
  Bug("corpus/sampled.py", "1 + (items - 1) * (ranks - 1) / sampled",
      "1 + items * (ranks - 1) / sampled", "corpus"),
  # Run files.
  Bug("trec/_matching.py", "return np.where(labels < 0, labels.dtype.type(NEGATIVE), labels)",
      "return labels", "trec"),
  Bug("trec/_matching.py", 'else "descending"', 'else "ascending"', "trec"),
  Bug("trec/_strings.py", "empty = 8 * np.maximum(8 - left[rows], 0)",
      "empty = 0 * np.maximum(8 - left[rows], 0)", "trec"),
  Bug("trec/_text.py", "text = rest + text", "text = text + rest", "trec"),
  Bug("_core/host_order.py", "if not (merged | lost).any():", "if True:", "doors/test_dtypes.py"),
  Bug("_core/host_order.py", "(merged | lost) & ~", "merged & ~", "doors/test_dtypes.py"),
  Bug("trec/evaluation.py", "by_name[measure.name][selection.in_run < 0] = 0", "pass", "trec"),
)  # fmt: skip


def tests_of(folder: Path, *tests: str) -> tuple[bool, str]:
  """Whether quick tests of a copy pass, and the first that does not."""
  environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
  done = subprocess.run(
    [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
    cwd=folder,
    env=environment,
    capture_output=True,
    text=True,
    check=False,
  )
  if done.returncode not in (0, 1):
    raise RuntimeError(f"pytest ended with status {done.returncode}:\n{done.stdout[-2000:]}")
  lines = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
  failed = [line.removeprefix("FAILED ").split(" - ")[0] for line in lines]
  return done.returncode == 0, next(iter(failed), "")


def find(bug: Bug, folder: Path) -> str:
  """The quick test that finds a bug planted in a copy of the clone; empty if none does."""
  path = folder / "jaxrank" / bug.path
  text = path.read_text(encoding="utf-8")
  path.write_text(text.replace(bug.right, bug.wrong), encoding="utf-8")
  try:
    passes, test = tests_of(folder, f"tests/{bug.subject}")
    test = test if not passes else tests_of(folder, "--deselect", _OF_THE_PLANTS)[1]
  finally:
    path.write_text(text, encoding="utf-8")
  if test and not tests_of(folder, test)[0]:
    raise RuntimeError(f"{test} fails without a bug.")
  return test


def check(bug: Bug) -> None:
  """Raises an error for a bug whose text is not in its file exactly once."""
  count = (ROOT / "jaxrank" / bug.path).read_text(encoding="utf-8").count(bug.right)
  if count != 1:
    raise ValueError(f"{bug.path} has {bug.right!r} {count} times; expected once.")


def main() -> int:
  """Plants all bugs, or those of some files."""
  parser = argparse.ArgumentParser(description=main.__doc__)
  parser.add_argument("--only", default="", help="plant in files whose path has this text only")
  parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="bugs at a time")
  options = parser.parse_args()
  bugs = [bug for bug in BUGS if options.only in bug.path]
  for bug in bugs:
    check(bug)
  copies: queue.Queue[Path] = queue.Queue()

  def timed(bug: Bug) -> tuple[str, float]:
    folder, start = copies.get(), time.monotonic()
    try:
      return find(bug, folder), time.monotonic() - start
    finally:
      copies.put(folder)

  with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(options.jobs) as pool:
    for job in range(options.jobs):
      folder = Path(scratch, str(job))
      shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", ".venv", "*cache*"))
      copies.put(folder)
    missed = 0
    for number, (bug, (test, seconds)) in enumerate(
      zip(bugs, pool.map(timed, bugs), strict=True), 1
    ):
      missed += not test
      print(f"{number:3} of {len(bugs)}  {seconds:4.0f} s  {bug.path}: {bug.wrong.strip()}")
      print(f"          {test or 'NOT FOUND'}", flush=True)
  print(f"{len(bugs) - missed} of {len(bugs)} bugs found.")
  return bool(missed)


if __name__ == "__main__":
  sys.exit(main())
