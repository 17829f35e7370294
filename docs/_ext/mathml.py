"""Formulas as MathML: browsers set it themselves, so that no script or font has to be fetched."""

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.util import logging

CONVERTER = LatexToMathML(fancy_error=False)


def convert(node, *, block):
    """Return a formula as MathML; one that cannot be read is a warning, and shown as it is."""
    text = node.astext()
    if block and r"\\" in text and r"\begin" not in text:
        text = rf"\begin{{aligned}}{text}\end{{aligned}}"
    try:
        return CONVERTER.convert_with_local_state(text, displaystyle=block)
    except LatexError as error:
        logging.getLogger(__name__).warning("formula %r: %s", text, error, location=node)
        return text


def inline(translator, node):
    """Write a formula within a line."""
    translator.body.append(convert(node, block=False))
    raise nodes.SkipNode


def display(translator, node):
    """Write a formula on lines of its own, with its number where it has one."""
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    translator.body.append(f'<div class="formula">{convert(node, block=True)}</div>')
    if node["number"]:
        translator.body.append(f'<span class="eqno">({node["number"]})')
        translator.add_permalink_ref(node, "Link to this equation")
        translator.body.append("</span>")
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app):
    """Register the renderer, which `html_math_renderer` names."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
