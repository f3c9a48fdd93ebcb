"""The reference of the site has one entry for each public name, and every page has its place."""

import ast
import doctest
import importlib.util
import inspect
import operator
import re
from pathlib import Path

import jax.numpy as jnp
import pytest

import jaxrank
from tests.helpers.suites import thorough
from tests.house import built_site
from tests.house.public_api import MODULES

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = sorted([*DOCS.glob("reference/*.rst"), *DOCS.glob("reference/interop/*.rst")])
INTEROP = Path(jaxrank.__path__[0], "interop")


def lists(directive, text):
  """The lines under each use of a directive, without its options."""
  for block in re.findall(rf"^\.\. {directive}::\n((?:   .*\n|\n)+)", text, re.M):
    yield [line.strip() for line in block.splitlines() if line.strip() and ":" not in line]


def entries():
  """The dotted names of the functions, classes and constants that the pages document."""
  for path in REFERENCE:
    text = path.read_text(encoding="utf-8")
    yield from (f"jaxrank.{name}" for names in lists("autosummary", text) for name in names)
    yield from (f"jaxrank.{name}" for name in re.findall(r"^\.\. data:: (.+)$", text, re.M))
    for module, names in re.findall(
      r"^\.\. automodule:: (.+)\n   :members: ((?:.+\n)+)", text, re.M
    ):
      yield from (f"{module}.{name.strip()}" for name in names.split(","))


ENTRIES = sorted(entries())
DESCRIBED = {
  module
  for path in REFERENCE
  for module in re.findall(r"^\.\. automodule:: (.+)$", path.read_text(encoding="utf-8"), re.M)
}


def interop_names():
  """The public names of each adapter, from its source, because some need other libraries."""
  for path in {*INTEROP.glob("*.py"), *INTEROP.glob("*/__init__.py"), *INTEROP.glob("rax/*.py")}:
    module = ".".join(path.relative_to(INTEROP.parents[1]).with_suffix("").parts)
    module = module.removesuffix(".__init__")
    private = path.name.startswith("_") and path.name != "__init__.py"
    # `jaxrank` exports the names of `plain_names`; of the parts of rax, two are public.
    hidden = path.parent.name == "rax" and path.stem not in ("__init__", "types", "utils")
    if not private and not hidden and path.stem != "plain_names":
      for name in names_of(ast.parse(path.read_text(encoding="utf-8")).body):
        if not (name.startswith("_") or path.with_name(f"{name}.py").exists()):
          yield f"{module}.{name}"


def names_of(body):
  """What `__all__` lists, or else what a module defines or imports for its users."""
  names = []
  for node in body:
    if isinstance(node, ast.ImportFrom):
      names += [alias.name for alias in node.names if alias.asname == alias.name]
    elif isinstance(node, ast.FunctionDef | ast.ClassDef):
      names.append(node.name)
    elif isinstance(node, ast.Assign | ast.AnnAssign):
      targets = node.targets if isinstance(node, ast.Assign) else [node.target]
      targets = [x for target in targets for x in getattr(target, "elts", [target])]
      found = [target.id for target in targets if isinstance(target, ast.Name)]
      if found == ["__all__"]:
        return ast.literal_eval(node.value)
      names += found
  return names


ALIASES = {}
for module, contents in MODULES.items():
  for name in contents.__all__:
    value = getattr(contents, name)
    if not inspect.ismodule(value):
      ALIASES.setdefault((name, id(value)), []).append(f"{module}.{name}")


def test_every_public_name_has_one_entry():
  counts = {names[0]: sum(ENTRIES.count(name) for name in names) for names in ALIASES.values()}
  assert not {name: count for name, count in counts.items() if count != 1}


def test_every_name_of_an_adapter_has_one_entry():
  found = [name for name in ENTRIES if name.startswith("jaxrank.interop.")]
  expected = sorted(interop_names())
  assert not set(found) ^ set(expected)
  assert found == expected


def test_entries_are_public_names():
  public = {name for names in ALIASES.values() for name in names}
  assert {name for name in ENTRIES if not name.startswith("jaxrank.interop.")} <= public


def test_public_modules_are_described():
  modules = {f"jaxrank.{x}" for x in jaxrank.__all__ if inspect.ismodule(getattr(jaxrank, x))}
  adapters = {name.rpartition(".")[0] for name in interop_names()}
  assert modules | adapters | {"jaxrank", "jaxrank.interop"} <= DESCRIBED


def of_docs(name):
  """A module of `docs/`, which is no package."""
  spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


def test_every_page_has_one_place_in_the_sidebar():
  groups = of_docs("navigation").GROUPS
  pages = [*DOCS.glob("*.md"), *DOCS.glob("notebooks/*.md"), DOCS / "reference/index.rst"]
  expected = {path.relative_to(DOCS).with_suffix("").as_posix() for path in pages} - {"index"}
  listed = [page for group in groups.values() for at in group.items() for page in (at[0], *at[1])]
  assert sorted(listed) == sorted(expected)
  assert sum(map(len, groups.values())) <= 15


def test_the_first_page_leads_to_the_page_of_each_task():
  """Evaluation, devices, ragged features, losses, sweeps, the shell, catalogues, own metrics."""
  linked = set(re.findall(r"\]\(([\w/]+)\.md\)", (DOCS / "index.md").read_text(encoding="utf-8")))
  pages = {"jitted_step", "scale", "features", "which", "sweeps", "trec", "command", "catalogues"}
  assert linked >= pages | {"extending", "notebooks/quickstart", "troubleshooting", "interop"}


@pytest.mark.parametrize("page", ["index", "interop"])
def test_every_page_of_the_reference_is_in_a_table_of_contents(page):
  home = DOCS / "reference" / f"{page}.rst"
  folder = home.parent if page == "index" else home.parent / page
  blocks = re.findall(r"^\.\. toctree::\n(.*?)(?=^\S|\Z)", home.read_text(), re.M | re.S)
  lines = [line.strip() for block in blocks for line in block.splitlines()]
  listed = sorted(line for line in lines if line and not line.startswith(":"))
  expected = {
    path.relative_to(home.parent).with_suffix("").as_posix() for path in folder.glob("*.rst")
  }
  assert listed == sorted(expected - {home.stem})


@pytest.mark.parametrize(
  ("text", "tex"),
  [
    ("MR = sum_i p_i r_i", r"\text{MR}= \sum _{i}\,p_{i}\,r_{i}"),
    ("p = (2^y - 1) / 2^max_label", r"p = (2^{y} - 1) / 2^{\text{max\_label}}"),
    ("w = t_m ** (r - 1)", r"w = t_{m}^{r - 1}"),
    ("x = sqrt(P_s (a + 1))", r"x = \sqrt{P_{s}\,(a + 1)}"),
    ("P = |z_(r) - z_i|", r"P = |z_{(r)} - z_{i}|"),
    ("c = {i of s: r_i <= k}", r"c = \{i\ \text{of}\ s: r_{i} \leq k\}"),
    ("ERR-IA@k = b_i AP@r_i", r"\text{ERR-IA@}k = b_{i}\ \text{AP@}r_{i}"),
  ],
)
def test_formulas_become_latex(text, tex):
  formulas = of_docs("formulas")
  assert formulas.is_formula(text)
  assert formulas.latex(text) == tex


@pytest.mark.parametrize("text", ["labels = jnp.eye(batch)", "a = b == c", "k=None", "x[i, j]"])
def test_code_is_no_formula(text):
  assert not of_docs("formulas").is_formula(text)


@pytest.mark.parametrize("text", ["n", "x_ij^p", "F(-z)", "stop_j < 1", "2^-58", "z = |s_i - s_j|"])
def test_symbols_of_the_mathematics_are_rendered(text):
  assert of_docs("formulas").is_mathematics(text)


@pytest.mark.parametrize(
  "text", ["Gumbel", "while_loop", "ties.mean", "Exact()", "chance/shuffled.py", "[32, 100]"]
)
def test_names_of_the_code_are_not_rendered(text):
  assert not of_docs("formulas").is_mathematics(text)


def test_lines_of_a_formula_are_aligned():
  block = of_docs("formulas").block
  assert block("a = b,   c = d") == r"a = b, \quad c = d"
  aligned = r"\begin{split} a & = b \quad \text{of j} \\ \text{cd} &= e \end{split}"
  assert block("a   = b    of j\ncd  = e\n") == aligned


def completed(function):
  """The docstring of a function as its entry shows it."""
  docstrings = of_docs("docstrings")
  lines = inspect.getdoc(function).splitlines()
  return "\n".join(docstrings.complete(function, lines, docstrings.ranking_of(function)))


def test_the_entry_of_a_metric_stands_alone():
  text = completed(jaxrank.ndcg)
  for name in inspect.signature(jaxrank.ndcg).parameters:
    assert len(re.findall(rf"^  {name}: ", text, re.M)) == 1
  assert "See `jaxrank.metrics`" not in text
  assert "jr.ndcg(scores, labels, where=where, k=2, ranking=jr.Laplace(1.0))" in text
  assert re.search(r"^Raises:\n  ValueError: if shapes differ", text, re.M)


def test_the_entry_of_a_loss_stands_alone():
  text = completed(jaxrank.losses.softmax)
  assert "jr.losses.softmax(scores, labels, where=where, temperature=0.5)" in text
  assert re.search(r"^Raises:\n  ValueError: if shapes differ", text, re.M)
  assert "nDCG" not in re.search(r"^  weights: .*", text, re.M)[0]


def test_an_entry_keeps_the_sections_of_its_docstring():
  text = completed(jaxrank.losses.lambda_ndcg)
  assert [text.count(f"\n{x}:\n") for x in ("Args", "Returns", "Raises", "References")] == [1] * 4
  assert re.findall(r"^  (\w+): ", text, re.M)[:4] == ["scores", "labels", "where", "k"]


@thorough
@pytest.mark.parametrize(
  "name", ["ndcg", "alpha_ndcg", "kendall_tau", "losses.softmax", "losses.approx_err"]
)
def test_examples_of_entries_are_true(name):
  docstrings = of_docs("docstrings")
  metric = operator.attrgetter(name)(jaxrank)
  text = docstrings.example(metric, docstrings.ranking_of(metric))
  names = {"jr": jaxrank, "jnp": jnp}
  test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
  assert doctest.DocTestRunner().run(test).failed == 0


def test_pictures_get_the_colours_of_dark_mode_once():
  figures = of_docs("figures")
  drawn = (DOCS / "losses.svg").read_text(encoding="utf-8")
  adapted = figures.in_both_modes(drawn)
  assert "prefers-color-scheme: dark" in adapted
  assert figures.in_both_modes(adapted) == adapted


def test_formulas_of_docstrings_are_balanced():
  formulas = of_docs("formulas")
  spans = {span for _, text in docstrings() for span in prose(text).split("`")[1::2]}
  found = [formulas.latex(span) for span in spans if formulas.is_formula(span)]
  assert len(found) > 50
  for tex in found:
    bare = tex.replace(r"\{", "").replace(r"\}", "")
    assert bare.count("{") == bare.count("}")
    assert not re.search(r"[_^](?!\{)|\\(?:le|ge|ne)(?![a-z])", tex.replace(r"\_", ""))


def prose(text):
  """A docstring without the code of its examples."""
  return re.sub(r"^ *(>>>|\.\.\.) .*$", "", text, flags=re.M)


def docstrings():
  """The docstrings of the package, by file and name."""
  for path in sorted(Path(jaxrank.__path__[0]).rglob("*.py")):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
      if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
        yield f"{path.name}: {getattr(node, 'name', '')}", ast.get_docstring(node) or ""


def test_docstrings_have_one_markup():
  """Code stands in single backticks, next to which the site needs a space or punctuation."""
  wrong = []
  for name, text in docstrings():
    for paragraph in prose(text).split("\n\n"):
      outside = paragraph.split("`")[::2]
      joined = any(re.match(r"[A-Za-z0-9]", x) for x in outside[1:])
      joined |= any(re.search(r"\w\Z", x) for x in outside[:-1])
      if "``" in paragraph or paragraph.count("`") % 2 or joined:
        wrong.append(f"{name}: {paragraph}")
  assert not wrong


def test_the_check_of_the_built_site_finds_what_is_wrong(tmp_path, capsys):
  pages = {
    "index.html": '<a href="a.html#here"><a href="a.html#gone"><a href="none.html"><img src="//x">',
    "a.html": '<a id="here"><a href="#here"><a href="notebooks/run.html">',
    "table.html": "<pre>\n| a |\n</pre><p>text\n| <code>a</code> | b |\n</p>",
    "notebooks/run.html": '<a href="run.ipynb">',
    "notebooks/new.html": '<a href="new.ipynb">',
    "notebooks/run.ipynb": '{"cells": [{"outputs": [{}]}]}',
    "notebooks/new.ipynb": '{"cells": [{"outputs": []}]}',
  }
  (tmp_path / "notebooks").mkdir()
  for name, text in pages.items():
    (tmp_path / name).write_text(text)
  with pytest.raises(SystemExit, match="True"):
    built_site.main(tmp_path)
  *wrong, total = capsys.readouterr().out.splitlines()
  assert [line.rpartition("/")[2] for line in wrong] == [
    "index.html: a.html#gone",
    "index.html: none.html",
    "new.html",
    "table.html",
  ]
  assert total == "5 pages, 8 links"
