"""Configuration of the documentation site: Sphinx, MyST and the pydata theme, without a request to the outside."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS / "_tools"), str(DOCS.parent / "src")]
os.environ.setdefault("OMP_NUM_THREADS", "1")

project = "recveil"
author = "The recveil authors"
copyright = "The recveil authors, MIT license"
release = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "run_directive",
    "generated_directive",
    "report_directive",
]
exclude_patterns = ["_build", "_tools"]
nitpicky = False
default_role = "code"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False

html_theme = "pydata_sphinx_theme"
html_title = f"recveil {release}"
html_static_path = ["_static"]
html_css_files = ["recveil.css"]
html_copy_source = False
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_show_search_summary = False  # summaries would be fetched, which a page opened from disk may not
html_sidebars = {"index": [], "install": [], "for-decision-makers": [], "faq": []}
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "navbar_align": "left",
    "header_links_before_dropdown": 5,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
