"""Settings of the documentation; `make docs` builds it."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import unbin  # noqa: E402

for name in ("plots", "report"):  # modules under names of other rooms, see unbin/__init__.py
    sys.modules[f"unbin.{name}"] = getattr(unbin, name)

project = "unbin"
author = "The unbin developers"
project_copyright = "the unbin developers, BSD-3-Clause"
version = release = unbin.__version__

extensions = [
    "check_links",
    "console",
    "descriptions",
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
]
# What sphinx-gallery makes of gallery/ is in auto_gallery.
exclude_patterns = ["_build", "_templates", "gallery"]
smartquotes = False  # "auto" is a value, with quotes that can be copied

# Markdown. Anchors are those of GitHub, so that a link works there and here.
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
myst_dmath_allow_digits = myst_dmath_allow_space = False  # $5 to $10 is money

# The API. Types are in the docstrings, where they say more than annotations.
autosummary_generate = True
templates_path = ["_templates"]  # pages of names without "unbin.", which they all have
autodoc_typehints = "none"
METHODS = ("decision_function", "fit", "predict", "predict_log_proba", "predict_proba", "score")
autodoc_default_options = {
    "members": True,
    "exclude-members": ", ".join(f"set_{method}_request" for method in METHODS),  # scikit-learn's
}
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# The gallery is there as soon as it has a script.
if (HERE / "gallery").is_dir():
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": "gallery",
        "gallery_dirs": "auto_gallery",
        "filename_pattern": r"\.py$",
        "abort_on_example_error": True,
        "capture_repr": ("_repr_html_",),
        "image_scrapers": ("pictures",),
        "download_all_examples": False,
        "remove_config_comments": True,
        "min_reported_time": 60,
        "show_memory": False,
        "show_signature": False,
        "write_computation_times": False,
        "within_subsection_order": "FileNameSortKey",
        "doc_module": ("unbin",),
        "backreferences_dir": None,
    }

# Nothing is fetched from outside: fonts are the reader's own, formulas are MathML.
html_theme = "furo"
html_title = "unbin"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["unbin.css"]
html_favicon = "_static/icon.svg"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5f8b", "color-brand-content": "#1f5f8b"},
    "dark_css_variables": {"color-brand-primary": "#7fb7e0", "color-brand-content": "#7fb7e0"},
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"
