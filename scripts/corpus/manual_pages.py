"""Paragraphs of man pages and of Perl's POD."""

import re

from plain_text import tidy

_FONT_MACROS = frozenset(
    "B I BR RB IR RI BI IB SM SB Nm Fl Ar Pa Em Sy Dv Va Fn Ev Li Cm Ic Dq Sq Pq Ql Qq Tn Ux Er Vt Ft Fa No".split()
)
_GLUED_MACROS = frozenset("BR RB IR RI BI IB".split())
_VERBATIM_BEGIN = frozenset("nf EX Bd TS EQ SY".split())
_VERBATIM_END = frozenset("fi EE Ed TE EN YS".split())
_ARGUMENT = re.compile(r'"((?:[^"]|"")*)"|(\S+)')
_REQUEST = re.compile(r"\.\s*(\S+)\s*(.*)")
_FONT_ESCAPE = re.compile(r"\\f(?:\[[^\]]*\]|\(..|.)|\\s[-+]?\d+")
_CHARACTERS = [
    (r"\-", "-"), (r"\(aq", "'"), (r"\(em", "--"), (r"\(en", "-"), (r"\(lq", '"'), (r"\(rq", '"'), (r"\(oq", "'"),
    (r"\(cq", "'"), (r"\(bu", ""), (r"\'", "'"), (r"\`", "`"), (r"\&", ""), (r"\|", ""), (r"\^", ""), (r"\/", ""),
    (r"\%", ""), (r"\:", ""), (r"\~", " "), (r"\ ", " "),
]  # fmt: skip
_POD_CODE = re.compile(r"[A-Z]<(?:<+ )?([^<>]*?)(?: >+)?>")
_POD_LINK = re.compile(r"L<([^<>|]*)\|[^<>]*>")


def _plain(text: str) -> str | None:
    """Text without troff escapes, or None where one is left that we do not know."""
    text = _FONT_ESCAPE.sub("", text)
    for escape, character in _CHARACTERS:
        text = text.replace(escape, character)
    return None if "\\" in text else tidy(text)


def man_paragraphs(source: str) -> list[str]:
    blocks: list[list[str]] = [[]]
    verbatim = False
    for line in source.split("\n"):
        if line.startswith(("'", '.\\"')):
            continue
        request = _REQUEST.match(line)
        if request:
            name, rest = request.groups()
            if name in _VERBATIM_BEGIN or name in _VERBATIM_END:
                verbatim = name in _VERBATIM_BEGIN
                blocks.append([])
            elif name in _FONT_MACROS and not verbatim:
                words = [quoted or bare for quoted, bare in _ARGUMENT.findall(rest)]
                blocks[-1].append(("" if name in _GLUED_MACROS else " ").join(words))
            elif name == "Xr" and not verbatim:
                blocks[-1].append(re.sub(r"^(\S+) (\d\S*)", r"\1(\2)", rest))
            else:
                blocks.append([])
        elif not line.strip() or line[0] in " \t":
            blocks.append([])
        elif not verbatim:
            blocks[-1].append(line)
    texts = (_plain(" ".join(block)) for block in blocks if block)
    return [text for text in texts if text]


def pod_paragraphs(source: str) -> list[str]:
    paragraphs = []
    inside = False
    for block in re.split(r"\n\s*\n", "\n\n" + source):
        block = block.strip("\n")
        if block.startswith("="):
            inside = not block.startswith("=cut")
        elif inside and block and block[0] not in " \t":
            for _ in range(3):  # codes nest
                block = _POD_CODE.sub(r"\1", _POD_LINK.sub(r"\1", block.replace("E<lt>", "\1").replace("E<gt>", "\2")))
            paragraphs.append(tidy(block.replace("\1", "<").replace("\2", ">")))
    return [paragraph for paragraph in paragraphs if paragraph]
