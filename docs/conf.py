"""Settings of Sphinx for the site; README.md has the command that builds it."""

import os
import re
import sys
import tomllib
from pathlib import Path

from docutils import nodes
from jax.typing import ArrayLike
from latex2mathml.converter import convert
from sphinx import addnodes
from sphinx.util.typing import stringify_annotation

import jaxrank

# The reference of the adapter imports Keras.
os.environ["KERAS_BACKEND"] = "jax"

DOCS = Path(__file__).parent
PROJECT = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
sys.path.insert(0, str(DOCS))

import docstrings  # noqa: E402
import figures  # noqa: E402
import formulas  # noqa: E402
import navigation  # noqa: E402

project = "jaxrank"
author = copyright = "the authors of jaxrank"
release = version = jaxrank.__version__

extensions = [
  "myst_nb",
  "sphinx.ext.autodoc",
  "sphinx.ext.autosummary",
  "sphinx.ext.napoleon",
  "sphinx_copybutton",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = f"jaxrank {release}"
html_copy_source = False
html_math_renderer = "mathml"
html_theme_options = {
  "source_repository": PROJECT["urls"]["Source"],
  "source_branch": "main",
  "source_directory": "docs/",
}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(DOCS / "scorer.js")
copybutton_selector = "div:not(.output) > div.highlight pre"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

myst_heading_anchors = 3
myst_enable_extensions = ["attrs_block"]

# Pages with the header of jupytext are notebooks, which run in every build from scratch.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_timeout = 120
nb_merge_streams = True

# Single backticks in docstrings are code, with a link where the code is a public name.
default_role = "py:obj"
napoleon_custom_sections = [("Attributes", "params_style")]
napoleon_use_rtype = False
napoleon_preprocess_types = False
# Adapters import these, which are large; their pages need none of them.
autodoc_mock_imports = ["grain", "pandas", "pyarrow", "ray"]
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
maximum_signature_line_length = 88

# Some file systems do not distinguish `jaxrank.Metric` from `jaxrank.metric`.
autosummary_filename_map = {
  f"jaxrank.{name}": f"jaxrank.{name}-class"
  for name in ("Metric", "discounts.Affine", "discounts.Geometric", "discounts.Table")
}


def shorten_types(app, what, name, obj, options, signature, result):
  """Writes `ArrayLike` where Python only knows the types that it stands for."""
  signature = signature and signature.replace("<factory>", "...")
  for mode in ("fully-qualified-except-typing", "smart"):
    long = stringify_annotation(ArrayLike, mode)
    signature = signature and signature.replace(long, "ArrayLike")
    result = result and result.replace(long, "ArrayLike")
  return signature, result


def clean_docstrings(app, what, name, obj, options, lines):
  """Drops what Python says of every number, tuple or dictionary from the entries of constants."""
  if what in ("data", "attribute") and type(obj).__module__ == "builtins":
    lines.clear()


def complete_docstrings(app, what, name, obj, options, lines):
  """Lists the arguments that a package explains once for all of its functions."""
  if what == "function":
    lines[:] = docstrings.complete(obj, lines, docstrings.ranking_of(obj))


def skip_fields(app, what, name, obj, skip, options):
  """Leaves out the fields of named tuples as members, because the docstring lists them."""
  return True if (getattr(obj, "__doc__", None) or "").startswith("Alias for field") else None


def math(text):
  """The node of a formula in plain text."""
  tex = formulas.latex(text)
  return nodes.math(tex, tex)


def relink(app, doctree):
  """Corrects the links that code in docstrings would become.

  A formula is rendered. The name of a page, such as `docs/scale.md`, leads to that page. A
  parameter of the function at hand, such as `target` or `metric`, stays code even if a public
  function has the same name.
  """
  for entry in doctree.findall(addnodes.desc):
    taken = {x.astext() for x in entry.findall(addnodes.desc_sig_name)}
    for link in list(entry.findall(addnodes.pending_xref)):
      if link.get("reftype") == "obj" and link["reftarget"] in taken:
        link.replace_self(link.children)
  for link in list(doctree.findall(addnodes.pending_xref)):
    if link.get("reftype") == "obj" and formulas.is_formula(link.astext()):
      link.replace_self(math(link.astext()))
    page = re.fullmatch(r"docs/(\w+)\.md", link.get("reftarget", ""))
    if page:
      link.attributes |= {"refdomain": "std", "reftype": "doc", "reftarget": f"/{page[1]}"}
      link["refexplicit"] = True


def finish_page(app, doctree):
  """Links the public names in the code of a Markdown page, and renders its formulas.

  A name has a prefix, such as `jr.ndcg` or `losses.softmax`, or is a metric on the page of the
  metrics, or a name of the module whose page it is. Code that is no name of the reference stays.
  Formulas stand in the table of metrics and on the page of the mathematics.
  """
  page = app.env.docname
  if app.env.doc2path(page).suffix != ".md":
    return
  module = "" if page == "metrics" else f"{page}."
  rendered = {"metrics": formulas.is_formula, "mathematics": formulas.is_mathematics}.get(page)
  for code in list(doctree.findall(nodes.literal)):
    text = code.astext()
    name = re.fullmatch(r"((?:jr|jaxrank)\.)?([A-Za-z_][\w.]*)(?:\(.*)?", text, re.S)
    if rendered and rendered(text):
      code.replace_self(math(text))
    elif name:
      target = name[2] if name[1] or "." in name[2] else module + name[2]
      link = {"refdomain": "py", "reftype": "obj", "reftarget": f"jaxrank.{target}"}
      code.replace_self(addnodes.pending_xref(text, code.deepcopy(), **link, refexplicit=True))
  if page == "metrics":
    next(iter(doctree.findall(nodes.table)))["classes"].append("uses")
  if page == "mathematics":
    for block in list(doctree.findall(nodes.literal_block)):
      if block.get("language") == "text":
        tex = formulas.block(block.astext())
        block.replace_self(nodes.math_block(tex, tex))


def visit_math(writer, node):
  """Writes MathML, which browsers show without a script and without a network."""
  display = "block" if isinstance(node, nodes.math_block) else "inline"
  written = convert(node.astext().replace(r"\_", "_"), display=display)
  writer.body.append(f'<div class="formula">{written}</div>' if display == "block" else written)
  raise nodes.SkipNode


def trim_examples(app, doctree):
  """Drops the blank line at the end of an example, which doctest needs."""
  for block in doctree.findall(nodes.literal_block):
    if block.rawsource == block.astext():
      block.rawsource = block.astext().rstrip()
      block[:] = [nodes.Text(block.rawsource)]


def offer_download(app, doctree):
  """Puts a link to the executed notebook under the title of its page."""
  name = app.env.docname
  executed = Path(app.env.mystnb_config.output_folder, f"{name}.ipynb")
  # There is none in a build that executes no notebook.
  if name.startswith("notebooks/") and executed.exists():
    target = "/" + os.path.relpath(executed, app.srcdir)
    link = addnodes.download_reference("", "Download this page as a notebook", reftarget=target)
    title = doctree.next_node(nodes.title)
    title.parent.insert(1, nodes.paragraph("", "", link))


def add_contents(app, page, source):
  """Adds the tables of contents of `docs/navigation.py`."""
  source[0] += navigation.contents(page)


def adapt_figures(app, exception):
  """Gives the pictures of the site the colours of dark mode, too."""
  figures.adapt(Path(app.outdir, "_images"))


def setup(app):
  """Registers the handlers."""
  app.connect("source-read", add_contents)
  app.connect("build-finished", adapt_figures)
  app.connect("autodoc-process-docstring", clean_docstrings)
  # Before napoleon reads the sections.
  app.connect("autodoc-process-docstring", complete_docstrings, priority=400)
  app.connect("autodoc-process-signature", shorten_types)
  app.connect("autodoc-skip-member", skip_fields)
  app.connect("doctree-read", relink)
  app.connect("doctree-read", finish_page)
  app.connect("doctree-read", trim_examples)
  # Before Sphinx collects the files that pages offer.
  app.connect("doctree-read", offer_download, priority=400)
  app.add_html_math_renderer("mathml", (visit_math, None), (visit_math, None))
