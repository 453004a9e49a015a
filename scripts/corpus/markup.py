"""Paragraphs of HTML, DocBook, Mallard and OSIS documents."""

import re
from html.parser import HTMLParser

from plain_text import tidy

# Content that is no running text: code, navigation, formulas.
_SKIPPED = frozenset(
    "script style head pre nav svg math footer form select textarea screen programlisting literallayout synopsis "
    "listing code_block tocdiv note".split()
)
# Elements inside a sentence; every other tag ends a paragraph.
_INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark q s samp small span strike strong "
    "sub sup tt u var wbr emphasis literal command filename application guilabel guimenu guimenuitem guibutton guiicon "
    "guisubmenu menuchoice keycombo keycap keysym option parameter replaceable userinput computeroutput ulink link xref quote "
    "firstterm foreignphrase citetitle systemitem envar varname function type classname constant email prompt trademark "
    "productname token symbol property markup sgmltag tag phrase indexterm primary secondary anchor gui guiseq key keyseq cmd "
    "app file sys input output time w hi transchange divinename reference ref seg name".split()
)
_VOID = frozenset("br img wbr hr meta link input col area base source xref anchor".split())
_SPACE_BEFORE_MARK = re.compile(r" +([,.;:?!’”)])")


class _ParagraphParser(HTMLParser):
    def __init__(self, skipped: frozenset[str]):
        super().__init__(convert_charrefs=True)
        self._skipped = skipped
        self._skipping: str | None = None
        self._depth = 0
        self._parts: list[str] = []
        self.paragraphs: list[str] = []

    def end_paragraph(self) -> None:
        text = tidy("".join(self._parts))
        self._parts.clear()
        if text:
            self.paragraphs.append(text)

    def handle_starttag(self, tag, attrs):
        if self._skipping:
            self._depth += tag == self._skipping
        elif tag in self._skipped:
            self._skipping, self._depth = tag, 1
            self._parts.append(" ")
        elif tag == "br":
            self._parts.append(" ")
        elif tag not in _INLINE:
            self.end_paragraph()

    def handle_startendtag(self, tag, attrs):
        if not self._skipping and tag not in _INLINE:
            self._parts.append(" ") if tag == "br" else self.end_paragraph()

    def handle_endtag(self, tag):
        if self._skipping:
            self._depth -= tag == self._skipping
            if self._depth == 0:
                self._skipping = None
        elif tag not in _INLINE and tag not in _VOID:
            self.end_paragraph()

    def handle_data(self, data):
        if not self._skipping:
            self._parts.append(data)


def markup_paragraphs(text: str, keep: frozenset[str] = frozenset()) -> list[str]:
    """Running text by block elements. Elements in `keep` are read although they are skipped by default."""
    parser = _ParagraphParser(_SKIPPED - keep)
    parser.feed(text)
    parser.close()
    parser.end_paragraph()
    return [_SPACE_BEFORE_MARK.sub(r"\1", paragraph) for paragraph in parser.paragraphs]
