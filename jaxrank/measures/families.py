"""The families and nicknames of trec_eval: `P` is `P_5`, `P_10` and so on."""

from collections.abc import Iterable, Mapping
from typing import Literal

_CUTOFFS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)

# Endings of the names of a family, by default.
_ENDINGS: Mapping[str, tuple[str, ...]] = {
  **dict.fromkeys(
    ("P", "recall", "ndcg_cut", "map_cut", "relative_P"), tuple(f"_{k}" for k in _CUTOFFS)
  ),
  "success": ("_1", "_5", "_10"),
  "unj": ("_5", "_10", "_20"),
  "iprec_at_recall": tuple(f"_{i / 10:.2f}" for i in range(11)),
  "Rprec_mult": tuple(f"_{i / 5:.2f}" for i in range(1, 11)),
}

# In the order in which trec_eval prints them.
_COUNTS = ("num_q", "num_ret", "num_rel", "num_rel_ret")
_SETS = ("set_P", "set_relative_P", "set_recall", "set_map", "set_F")
_RANKED = ("map", "gm_map", "Rprec", "bpref", "recip_rank", "iprec_at_recall", "P")
_OTHERS = ("recall", "infAP", "gm_bpref", "Rprec_mult", "utility", "11pt_avg", "binG", "G")
_GRADED = ("ndcg", "ndcg_rel", "Rndcg", "ndcg_cut")
_CUT = ("map_cut", "relative_P", "success")
_OFFICIAL = (*_COUNTS, *_RANKED)
_ALL = (*_OFFICIAL, *_OTHERS, *_GRADED, *_CUT, *_SETS, "num_nonrel_judged_ret")
_ALL_10 = (*_ALL, "rbp", "rbp_resid", "unj")
_NICKNAMES: Mapping[str, tuple[str, ...]] = {
  "official": _OFFICIAL,
  "set": (*_COUNTS, "utility", *_SETS),
  "all_trec": _ALL,
}


def trec_families(
  names: str | Iterable[str], dialect: Literal["trec_eval", "trec_eval10"] = "trec_eval"
) -> tuple[str, ...]:
  """The names of single measures for families and nicknames of trec_eval.

  A family is a name without its numbers, such as `P` or `ndcg_cut`, and stands for the numbers that
  trec_eval prints by default. Nicknames are `official`, `set` and `all_trec`; their names are in
  the order in which trec_eval prints them. Other names stay as they are.

  >>> print(*trec_families("success map"))
  success_1 success_5 success_10 map

  Args:
    names: Names, or a string of names separated by spaces.
    dialect: "trec_eval" for version 9, or "trec_eval10", whose `all_trec` has more measures.

  Returns:
    Names for `jaxrank.parse` with the same dialect, without repetitions.
  """
  asked = names.split() if isinstance(names, str) else names
  known = _NICKNAMES if dialect == "trec_eval" else {**_NICKNAMES, "all_trec": _ALL_10}
  members = [member for name in asked for member in known.get(name, (name,))]
  return tuple(dict.fromkeys(x + end for x in members for end in _ENDINGS.get(x, ("",))))
