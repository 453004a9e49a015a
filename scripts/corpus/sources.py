"""Where the text comes from: one line a source, best prose first; and which sources a profile has."""

from collections.abc import Callable
from dataclasses import dataclass

import dictionaries
import games
import readers
from filters import is_documentation, is_prose
from readers import Reader
from sword import module_chapters


@dataclass(frozen=True)
class Source:
    """A Debian package and how its text is read. Quality A is running prose, B short reference entries, C books and manuals
    about computing, D technical documentation."""

    package: str
    quality: str
    licence: str
    accepts: Callable[[str], bool]
    read: Reader
    shortest: int = 200  # bytes a document must have


def _prose(package: str, quality: str, licence: str, read: Reader, shortest: int = 200) -> Source:
    return Source(package, quality, licence, is_prose, read, shortest)


def _manual(package: str, quality: str, licence: str, read: Reader, shortest: int = 200) -> Source:
    return Source(package, quality, licence, is_documentation, read, shortest)


_ENTRY = 80  # bytes of a dictionary entry that is worth keeping
_OTHER_LANGUAGES = r"[._/-](ca|cs|de|es|fr|hu|it|ja|ko|nl|pl|pt|ru|sv|uk|vi|zh)([._/-]|_[A-Z]{2})"

_CAMPAIGNS = "did dm dw ei httt l low nr sof sota sotbe thot trow tsg utbs".split()  # of The Battle for Wesnoth

QUICK = [
    _prose("r-cran-janeaustenr", "A", "public domain", readers.r_books("janeaustenr")),
    _prose("r-cran-tokenizers", "A", "public domain", readers.r_books("tokenizers")),
    _prose(
        "golang-github-pierrec-lz4-dev",
        "A",
        "public domain",
        readers.books(r"testdata/(Mark\.Twain-Tom\.Sawyer|pg1661)\.txt$"),
    ),
]

CORE = QUICK + [
    _prose("sword-text-web", "A", "public domain", module_chapters),
    _prose("sword-text-kjv", "A", "public domain", module_chapters),
    _prose("sword-comm-tdavid", "A", "public domain", module_chapters),
    _manual("sword-comm-mhcc", "A", "public domain", module_chapters),
    _manual("anarchism", "A", "GPL-2", readers.markdown_essays),
    _manual("cfi-en", "A", "public domain", readers.html()),
    _prose("fortunes", "A", "BSD, quotations", dictionaries.fortunes, _ENTRY),
    _prose("fortunes-min", "A", "BSD, quotations", dictionaries.fortunes, _ENTRY),
    _prose("crawl-common", "A", "GPL-2+", dictionaries.crawl, _ENTRY),
    _prose("dict-devil", "A", "public domain", readers.plain_text(r"devil\.dict\.dz$", deepest_indent=12)),
    _prose(
        "display-dhammapada",
        "A",
        "public domain",
        readers.plain_text(r"usr/share/display-dhammapada/", "polish", deepest_indent=12),
    ),
    _prose("wordnet-base", "B", "WordNet", dictionaries.wordnet, _ENTRY),
    _prose("dict-gcide", "B", "GPL-2+", dictionaries.gcide, _ENTRY),
    _manual("dict-foldoc", "B", "GFDL-1.1+, no invariants", dictionaries.foldoc, _ENTRY),
    _manual("jargon-text", "B", "public domain", dictionaries.jargon, _ENTRY),
    _manual("mh-book", "C", "GPL-2+", readers.html()),
    _manual("c++-annotations-txt", "C", "GPL", readers.plain_text(r"cplusplus\.txt\.gz$", deepest_indent=0)),
    _manual("libreoffice-help-en-us", "C", "MPL-2.0", readers.html(r"en-US/text/.*\.html$")),
    _manual("vim-doc", "C", "Vim", readers.vim_help),
    _manual("debian-reference-en", "C", "GPL-2+", readers.html()),
    _manual("debian-policy", "C", "GPL-2+", readers.html()),
    _manual("developers-reference", "C", "GPL-2+", readers.html()),
    _manual("harden-doc", "C", "GPL-2+", readers.html(r"en-US/.*\.html$")),
    _manual("abs-guide", "C", "public domain", readers.html()),
    _manual("gnome-user-docs", "C", "CC-BY-SA-3.0", readers.html(r"help/C/.*\.(page|xml)$")),
    _manual("linux-doc-6.1", "D", "GPL-2", readers.html(r"/html/.*\.html$", readers.MACHINE_MADE + "|translations")),
    _manual("python3.11-doc", "D", "PSF-2", readers.html(r"html/.*\.html$")),
    _manual("postgresql-doc-15", "D", "PostgreSQL", readers.html()),
    _manual("perl-doc", "D", "Artistic or GPL", readers.pod),
    _manual("git-doc", "D", "GPL-2", readers.html(r"\.html$", "RelNotes")),
    _manual("sqlite3-doc", "D", "public domain", readers.html()),
    _manual("python-django-doc", "D", "BSD-3", readers.html()),
    _manual("apache2-doc", "D", "Apache-2.0", readers.html(r"manual/en/.*\.html$")),
    _manual("exim4-doc-html", "D", "GPL-2+", readers.html()),
    _manual("manpages", "D", "GPL, BSD", readers.man_pages),
    _manual("manpages-dev", "D", "GPL, BSD", readers.man_pages),
    _manual("freebsd-manpages", "D", "BSD", readers.man_pages),
    _manual("git-man", "D", "GPL-2", readers.man_pages),
]

FULL = CORE + [
    _prose("golang-1.19-src", "A", "public domain", readers.books(r"testdata/Isaac\.Newton-Opticks\.txt$")),
    _manual("sword-comm-scofield", "A", "public domain", module_chapters),
    _prose("endless-sky-data", "A", "GPL-3+", games.endless_sky, _ENTRY),
    _prose("cataclysm-dda-data", "A", "CC-BY-SA-3.0", games.cataclysm, _ENTRY),
    *(_prose(f"wesnoth-1.16-{campaign}", "A", "GPL-2+", games.wesnoth, _ENTRY) for campaign in _CAMPAIGNS),
    _manual("r-bioc-go.db", "B", "Artistic-2.0, CC-BY", dictionaries.gene_ontology, _ENTRY),
    _manual("debian-handbook", "C", "GPL-2+ or CC-BY-SA-3.0", readers.html(r"html/en-US/.*\.html$")),
    _manual("debian-faq", "C", "GPL-2+", readers.html(r"\.html$", _OTHER_LANGUAGES)),
    _manual("debian-history", "C", "GPL-2+", readers.html(r"\.en\.html$")),
    _manual("debian-edu-doc-en", "C", "GPL-2+", readers.html()),
    _manual("aptitude-doc-en", "C", "GPL-2+", readers.html(r"html/en/.*\.html$")),
    _manual("apt-doc", "C", "GPL-2+", readers.html(r"/(guide|offline)\.html/.*\.html$")),
    _manual("live-manual-html", "C", "GPL-3+", readers.html(r"\.en\.html$")),
    _manual("gimp-help-en", "C", "GFDL-1.2+", readers.html(r"/en/.*\.html$")),
    _manual("debian-kernel-handbook", "C", "GPL-2+", readers.html()),
    _manual("maint-guide", "C", "GPL-2+", readers.html(r"\.html$", _OTHER_LANGUAGES)),
    _manual("debmake-doc", "C", "MIT", readers.html(r"\.html$", _OTHER_LANGUAGES)),
    _manual("installation-guide-amd64", "C", "GPL-2", readers.html(r"/en/.*\.html$")),
    _manual("gnome-devel-docs", "C", "CC-BY-SA, GFDL", readers.html(r"help/C/.*\.(page|xml)$")),
    _manual("png-definitive-guide", "C", "GFDL-1.1+", readers.html()),
    _manual("gitmagic", "C", "GPL-3", readers.html(r"\.html$", _OTHER_LANGUAGES)),
    _manual("lilypond-doc-html", "C", "GFDL-1.3+", readers.html(r"\.html$", _OTHER_LANGUAGES + "|internals|snippets")),
    _manual(
        "openjdk-17-doc",
        "D",
        "GPL-2+CE",
        readers.html(
            r"\.html$",
            r"index-files|class-use|package-(use|summary|tree)|legal|all(classes|packages)|overview|constant-values|help-doc",
        ),
    ),
    _manual(
        "rust-doc",
        "D",
        "MIT or Apache-2.0",
        readers.html(
            r"html/(book|nomicon|reference|rust-by-example|cargo|rustc|rustdoc|edition-guide|error_codes)/.*\.html$",
            r"print\.html",
        ),
    ),
    _manual("lintian", "D", "GPL-2+", readers.html(r"lintian\.html$")),
    _manual("erlang-doc", "D", "Apache-2.0", readers.html()),
    _manual("racket-doc", "D", "LGPL-3+", readers.html()),
    _manual("ada-reference-manual-2012", "D", "ARM, GPL-3+", readers.html()),
    _manual("gap-doc", "D", "GPL-2+", readers.html()),
    _manual("python-sqlalchemy-doc", "D", "MIT", readers.html()),
    _manual("cmake-doc", "D", "BSD-3", readers.html()),
    _manual("octave-doc", "D", "GPL-3+", readers.html()),
    _manual("r-doc-html", "D", "GPL-2+", readers.html()),
    _manual("zsh-doc", "D", "zsh", readers.html()),
    _manual("gnuplot-doc", "D", "gnuplot", readers.html()),
    _manual("gettext-doc", "D", "GPL-3+, GFDL", readers.html()),
    _manual("slurm-wlm-doc", "D", "GPL-2+", readers.html()),
    _manual("kea-doc", "D", "MPL-2.0", readers.html()),
    _manual("postfix-doc", "D", "IPL", readers.html()),
    _manual("bind9-doc", "D", "MPL-2.0", readers.html()),
    _manual("rsyslog-doc", "D", "Apache-2.0", readers.html()),
    _manual("nova-doc", "D", "Apache-2.0", readers.html(unwanted=readers.MACHINE_MADE + "|api-ref")),
    _manual("neutron-doc", "D", "Apache-2.0", readers.html(unwanted=readers.MACHINE_MADE + "|api-ref")),
    _manual("cinder-doc", "D", "Apache-2.0", readers.html(unwanted=readers.MACHINE_MADE + "|api-ref")),
    _manual("swift-doc", "D", "Apache-2.0", readers.html(unwanted=readers.MACHINE_MADE + "|api-ref")),
    _manual("krb5-doc", "D", "MIT", readers.html()),
    _manual("wireshark-doc", "D", "GPL-2+", readers.html()),
    _manual("mailman3-doc", "D", "GPL-3+", readers.html()),
]

PROFILES = {"quick": QUICK, "core": CORE, "full": FULL}
