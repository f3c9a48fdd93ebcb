"""The lines of trec_eval 9.0.8 for query 302 of the test files in its repository.

The files are in the public domain. Of the run there is, by rank, whether each document is relevant
(1), judged not relevant (0) or not judged (-), and of the judgements how many others there are.
"""

import pytest

from jaxrank.command import main

RUN = (
  "1101110110111111111011010011011001011010011100111110100101000000-00000010000001-0101000000000000"
  "0000-0000000-0000001000-00-00000000-0-0--000000---0-0-0001---0000-0-0----00000--00-0-0000000---0"
  "-0-00-0-000-000-----00-00------0--000-----0-000-00----0-0----000-------0-0-----0---000-00000-00-"
  "1---0---0---10------0-------0-00-0-----0-01-0-00-0--------0----0100----00---0--00--------0---0--"
  "00-----001--------------000--000---0-----------00---0-------00--0-000--0-1--0------0----000-0---"
  "0------------00-----"
)
RELEVANT, OTHERS = 27, 770

# Of the line in the Makefile with `-m all_trec -mrelstring.20 -q -l2`, for labels of 3.
ALL = """
num_ret 500 num_rel 77 num_rel_ret 50 map 0.4175 Rprec 0.5065 bpref 0.4712 recip_rank 1.0000
iprec_at_recall_0.00 1.0000 iprec_at_recall_0.10 0.8421 iprec_at_recall_0.20 0.8421
iprec_at_recall_0.30 0.7419 iprec_at_recall_0.40 0.6863 iprec_at_recall_0.50 0.5417
iprec_at_recall_0.60 0.1420 iprec_at_recall_0.70 0.0000 iprec_at_recall_0.80 0.0000
iprec_at_recall_0.90 0.0000 iprec_at_recall_1.00 0.0000 P_5 0.8000 P_10 0.7000 P_15 0.8000
P_20 0.8000 P_30 0.7333 P_100 0.4200 P_200 0.2200 P_500 0.1000 P_1000 0.0500
relstring_20 '33033303303333333330' recall_5 0.0519 recall_10 0.0909 recall_15 0.1558
recall_20 0.2078 recall_30 0.2857 recall_100 0.5455 recall_200 0.5714 recall_500 0.6494
recall_1000 0.6494 infAP 0.4175 Rprec_mult_0.20 0.8125 Rprec_mult_0.40 0.7419
Rprec_mult_0.60 0.6596 Rprec_mult_0.80 0.6129 Rprec_mult_1.00 0.5065 Rprec_mult_1.20 0.4516
Rprec_mult_1.40 0.3889 Rprec_mult_1.60 0.3468 Rprec_mult_1.80 0.3094 Rprec_mult_2.00 0.2857
utility -400.0000 11pt_avg 0.4360 binG 0.2160 G 0.1623 ndcg 0.6617 ndcg_rel 0.7130 Rndcg 0.6196
ndcg_cut_5 0.8304 ndcg_cut_10 0.7530 ndcg_cut_15 0.8085 ndcg_cut_20 0.8082 ndcg_cut_30 0.7604
ndcg_cut_100 0.6046 ndcg_cut_200 0.6209 ndcg_cut_500 0.6617 ndcg_cut_1000 0.6617 map_cut_5 0.0461
map_cut_10 0.0768 map_cut_15 0.1265 map_cut_20 0.1695 map_cut_30 0.2298 map_cut_100 0.3983
map_cut_200 0.4068 map_cut_500 0.4175 map_cut_1000 0.4175 relative_P_5 0.8000 relative_P_10 0.7000
relative_P_15 0.8000 relative_P_20 0.8000 relative_P_30 0.7333 relative_P_100 0.5455
relative_P_200 0.5714 relative_P_500 0.6494 relative_P_1000 0.6494 success_1 1.0000
success_5 1.0000 success_10 1.0000 set_P 0.1000 set_relative_P 0.6494 set_recall 0.6494
set_map 0.0649 set_F 0.1733 num_nonrel_judged_ret 214
"""
# What version 10 adds; its other lines differ in the recall levels alone.
ADDED = "rbp 0.7628 rbp_resid 0.0001 unj_5 0.0000 unj_10 0.0000 unj_20 0.0000"

# Of the line with parameters of measures, for labels of 1.
PARAMETERS = (
  "-q -miprec_at_recall..10,.20,.25,.75,.50 -m P.5,7,3 -m recall.20,2000 "
  "-m Rprec_mult.5.0,0.2,0.35 -mutility.2,-1,0,0 -m 11pt_avg..25,.5,.75 -mndcg.1=3,2=9,4=4.5 "
  "-mndcg_cut.10,20,23.4 -msuccess.2,5,20"
)
WITH_PARAMETERS = """
iprec_at_recall_0.10 0.8421 iprec_at_recall_0.20 0.8421 iprec_at_recall_0.25 0.7500
iprec_at_recall_0.50 0.5417 iprec_at_recall_0.75 0.0000 P_3 0.6667 P_5 0.8000 P_7 0.7143
recall_20 0.2078 recall_2000 0.6494 Rprec_mult_0.20 0.8125 Rprec_mult_0.35 0.7407
Rprec_mult_5.00 0.1247 utility_2,-1,0,0 -350.0000 11pt_avg_.25,.5,.75 0.4306
ndcg_1=3,2=9,4=4.5 0.6617 ndcg_cut_10 0.7530 ndcg_cut_20 0.8082 ndcg_cut_23 0.7964
success_2 1.0000 success_5 1.0000 success_20 1.0000
"""


@pytest.fixture
def lines(tmp_path, monkeypatch, capsys):
  """The lines of the query that the command prints for the files, with one label for relevance."""
  monkeypatch.chdir(tmp_path)
  run = [f"302\tQ0\td{i}\t{i}\t  {1 / i:.6f}\tSTANDARD" for i in range(1, len(RUN) + 1)]
  (tmp_path / "run").write_text("# a comment\n" + "\n".join(run) + "\n\n# another one\n")

  def call(words, label):
    judged = {f"d{i}": int(x) * label for i, x in enumerate(RUN, 1) if x != "-"}
    judged |= {f"m#{i}": label * (i < RELEVANT) for i in range(RELEVANT + OTHERS)}
    text = "".join(f"302 0 {document} {x}\n" for document, x in judged.items())
    (tmp_path / "qrels").write_text(f"# a comment\n{text}")
    assert main([*words.split(), "--no-cache", "qrels", "run"]) == 0
    return [x for x in capsys.readouterr().out.splitlines() if x.split("\t")[1] == "302"]

  return call


def written(text):
  words = text.split()
  pairs = zip(words[::2], words[1::2], strict=True)
  return [f"{name:<22}\t302\t{value}" for name, value in pairs]


def test_measures_with_parameters(lines):
  assert lines(f"--trec {PARAMETERS}", 1) == written(WITH_PARAMETERS)


@pytest.mark.thorough
def test_all_measures_above_a_label(lines):
  assert lines("--trec -m all_trec -mrelstring.20 -q -l2", 3) == written(ALL)


@pytest.mark.thorough
def test_all_measures_of_version_10(lines):
  changed = {"iprec_at_recall_0.60 0.1420": "iprec_at_recall_0.60 0.1528", "0.4360": "0.4370"}
  text = f"{ALL} {ADDED}"
  for old, new in changed.items():
    text = text.replace(old, new)
  assert lines("--trec10 -m all_trec -mrelstring.20 -q -l2", 3) == written(text)


def test_relstring(lines):
  """A character for each of the first documents, or of those that are judged."""
  name = f"{'relstring_70':<22}\t302"
  found = lines("--trec -q -m map -m relstring.70", 12)
  assert found[1] == f"{name}\t'{RUN[:70].replace('1', '>')}'"
  found = lines("--trec -q -J -M66 -m map -m relstring.70", 2)
  assert found[1] == f"{name}\t'{RUN[:66].replace('1', '2').replace('-', '')}'"
