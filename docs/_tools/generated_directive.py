"""The directive `generated`: reference text made from the code when the site is built. Nothing of it is committed."""

from __future__ import annotations

import reference_text
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class Generated(SphinxDirective):
    """Show the text that the function of this name in `reference_text` returns, with its headings."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        text = getattr(reference_text, f"describe_{self.arguments[0].replace('-', '_')}")()
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("generated", Generated)
    return {"parallel_read_safe": True}
