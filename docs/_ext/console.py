"""Commands as pages show them: after a dollar. Pygments takes a % of the output for a prompt."""

import re

from pygments.lexers.shell import BashSessionLexer


class Console(BashSessionLexer):
    """A command after a dollar, then what it printed."""

    _ps1rgx = re.compile(r"^(\$ )(.*\n?)")


def setup(app):
    """Register it."""
    app.add_lexer("console", Console)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
