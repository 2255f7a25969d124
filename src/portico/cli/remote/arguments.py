"""What can be typed: the commands that talk to a gateway, and their options."""

import argparse
from collections.abc import Sequence
from typing import NoReturn

from portico.cli.exits import UsageMistake

SHELLS = ("bash", "zsh", "fish")
MOST_JOBS = 64


class Parser(argparse.ArgumentParser):
    def __init__(self, prog: str, description: str, *, epilog: str | None = None, short_help: bool = True):
        super().__init__(
            prog,
            description=description,
            epilog=epilog,
            add_help=False,
            allow_abbrev=False,
            formatter_class=_Formatter,
        )
        self.add_argument(*(["-h"] if short_help else []), "--help", action="help", help="Show this help.")

    def error(self, message: str) -> NoReturn:
        raise UsageMistake(f"{message[:1].upper()}{message[1:].rstrip('.')}; see '{self.prog} --help'.")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def add_usage(self, usage, actions, groups, prefix=None):  # type: ignore[no-untyped-def]
        super().add_usage(usage, actions, groups, prefix or "Usage: ")


def parse(words: Sequence[str]) -> argparse.Namespace:
    """What was typed, the command's name first; help that was asked for is printed, and ends the program."""
    name, *rest = words
    parser = parser_of(name)
    # argparse drops the `--` too early, and takes what is behind it for options.
    split = rest.index("--") if "--" in rest and name in _LEAST | {"ls": 0} else len(rest)
    options = parser.parse_intermixed_args(rest[:split])
    options.command = name
    if split < len(rest):
        options.paths = [*options.paths, *rest[split + 1 :]]
    if getattr(options, "jobs", 1) not in range(1, MOST_JOBS + 1):
        parser.error(f"--jobs must be a number from 1 to {MOST_JOBS}")
    if getattr(options, "rename", False) and options.no_clobber:
        parser.error("--rename and --no-clobber exclude each other")
    least = _LEAST.get(name, 0)
    if least and len(options.paths) < least:
        parser.error(f"{'Something' if not options.paths else 'The target'} is missing")
    return options


def parser_of(name: str) -> Parser:
    return _PARSERS[name]()


def _login() -> Parser:
    parser = Parser(
        "portico login",
        "Sign in, and stay signed in: the token is kept in the system's key ring, or else in a file that only you can\n"
        "read. The password is asked for, or read from standard input; it is not kept.",
    )
    parser.add_argument(
        "url", metavar="URL", nargs="?", help="The gateway. Left out: PORTICO_URL, else as before."
    )
    parser.add_argument(
        "-u", "--user", metavar="NAME", help="The Web User. Left out: asked for, or as before."
    )
    parser.add_argument(
        "--password-stdin", action="store_true", help="Read the password from standard input."
    )
    parser.add_argument("--ca", metavar="FILE", help="The gateway's own certificate, if it has such.")
    return _with_profile(parser)


def _logout() -> Parser:
    return _with_profile(Parser("portico logout", "End the sign-in, here and at the gateway."))


def _whoami() -> Parser:
    parser = Parser("portico whoami", "Say who is signed in, where, and with which rights.")
    return _with_profile(_with_json(parser))


def _ls() -> Parser:
    parser = Parser("portico ls", "List folders, the root if none is named.", epilog=_GLOBS, short_help=False)
    parser.add_argument("paths", metavar="PATH", nargs="*", help="A folder, a file, or a pattern.")
    parser.add_argument("-l", "--long", action="store_true", help="Size and time too.")
    parser.add_argument("-h", "--human", action="store_true", help="Sizes as 1.2 GB; implies -l.")
    parser.add_argument(
        "-R", "--recursive", action="store_true", help="All that is below, by its whole path."
    )
    return _with_profile(_with_json(parser))


def _put() -> Parser:
    parser = Parser(
        "portico put",
        "Upload files and folders. What is known to be there already, just as it is here, is skipped.",
        epilog="SOURCE is a file, a pattern, with -r a folder, or - for standard input. TARGET is a folder if it is one\n"
        "already, if it ends with a slash, or if several sources are named. A folder keeps its name in TARGET; of\n"
        "FOLDER/. the content is taken.",
    )
    parser.add_argument("paths", metavar="SOURCE … TARGET", nargs="*")
    parser.add_argument(
        "--rename",
        action="store_true",
        help="Keep both: store under another name what would replace a file, and print that name.",
    )
    return _with_profile(_with_jobs(_with_transfer(parser)))


def _get() -> Parser:
    parser = Parser(
        "portico get",
        "Download files and folders. What is known to be here already, just as it is there, is skipped.",
        epilog="SOURCE is a file, a pattern, or with -r a folder. TARGET is the current folder if it is left out, or - for\n"
        "standard output. A folder keeps its name in TARGET; of FOLDER/. the content is taken.",
    )
    parser.add_argument("paths", metavar="SOURCE … [TARGET]", nargs="*")
    parser.add_argument(
        "--continue",
        dest="resume",
        action="store_true",
        help="Keep what has arrived if it is interrupted, and carry on with what an earlier run has kept.",
    )
    return _with_profile(_with_jobs(_with_transfer(parser)))


def _sync() -> Parser:
    parser = Parser(
        "portico sync",
        "Make a folder there like one here (up), or one here like one there (down).",
        epilog="portico sync up LOCAL REMOTE\nportico sync down REMOTE LOCAL",
    )
    parser.add_argument("direction", choices=("up", "down"))
    parser.add_argument("paths", metavar="SOURCE TARGET", nargs="*")
    parser.add_argument(
        "--delete", action="store_true", help="Remove from the target what the source has not."
    )
    parser.add_argument("--dry-run", action="store_true", help="Say what would be done, and do nothing.")
    parser.add_argument("-c", "--continue-on-error", dest="goes_on", action="store_true", help=_GOES_ON)
    parser.add_argument("-q", "--quiet", action="store_true", help="No bar and no summary.")
    parser.set_defaults(no_clobber=False, force=False, resume=False, rename=False)
    return _with_profile(_with_jobs(_with_checksum(parser)))


def _cat() -> Parser:
    parser = Parser("portico cat", "Write files to standard output, one after the other.", epilog=_GLOBS)
    parser.add_argument("paths", metavar="PATH", nargs="*")
    return _with_profile(parser)


def _mkdir() -> Parser:
    parser = Parser(
        "portico mkdir", "Make folders, with those above them; one that is there already is fine."
    )
    parser.add_argument("paths", metavar="PATH", nargs="*")
    parser.add_argument("-p", dest="parents", action="store_true", help="Accepted: it is always done so.")
    return _with_profile(parser)


def _mv() -> Parser:
    parser = Parser("portico mv", "Move or rename files and folders at the gateway.", epilog=_GLOBS)
    return _with_profile(_with_change(parser))


def _cp() -> Parser:
    parser = Parser("portico cp", "Copy files and folders at the gateway.", epilog=_GLOBS)
    parser.add_argument(
        "-r", "--recursive", action="store_true", help="Folders too, with all that is in them."
    )
    return _with_profile(_with_change(parser))


def _rm() -> Parser:
    parser = Parser("portico rm", "Remove files and empty folders at the gateway.", epilog=_GLOBS)
    parser.add_argument("paths", metavar="PATH", nargs="*")
    parser.add_argument(
        "-r", "--recursive", action="store_true", help="Folders too, with all that is in them."
    )
    parser.add_argument("-c", "--continue-on-error", dest="goes_on", action="store_true", help=_GOES_ON)
    parser.add_argument("--dry-run", action="store_true", help="Say what would be removed, and do nothing.")
    return _with_profile(parser)


def _completion() -> Parser:
    parser = Parser(
        "portico completion",
        "Print a script that completes commands, options and paths at the gateway.",
        epilog='bash:  eval "$(portico completion bash)"    in ~/.bashrc\n'
        'zsh:   eval "$(portico completion zsh)"     in ~/.zshrc, after compinit\n'
        "fish:  portico completion fish | source     in ~/.config/fish/config.fish",
    )
    parser.add_argument("shell", choices=SHELLS, nargs="?")
    parser.add_argument("--line", help=argparse.SUPPRESS)
    return parser


_GLOBS = "A path may be a pattern with *, ? and [], in quotes, so that the shell leaves it to the gateway."
_GOES_ON = "Go on after an error, and name all of them in the end."


def _with_profile(parser: Parser) -> Parser:
    parser.add_argument(
        "--profile", metavar="NAME", help="Which sign-in. Left out: PORTICO_PROFILE, else 'default'."
    )
    return parser


def _with_json(parser: Parser) -> Parser:
    parser.add_argument("--json", dest="as_json", action="store_true", help="Print JSON, one object a line.")
    return parser


def _with_jobs(parser: Parser) -> Parser:
    parser.add_argument(
        "-j", "--jobs", metavar="N", type=int, default=8, help="Requests at once; 8 if left out."
    )
    return parser


def _with_transfer(parser: Parser) -> Parser:
    parser.add_argument(
        "-r", "--recursive", action="store_true", help="Folders too, with all that is in them."
    )
    parser.add_argument("-n", "--no-clobber", action="store_true", help="Never replace what is there.")
    parser.add_argument("-f", "--force", action="store_true", help="Transfer what is there already, too.")
    parser.add_argument("-c", "--continue-on-error", dest="goes_on", action="store_true", help=_GOES_ON)
    parser.add_argument("--dry-run", action="store_true", help="Say what would be done, and do nothing.")
    parser.add_argument("-q", "--quiet", action="store_true", help="No bar and no summary.")
    return _with_checksum(parser)


def _with_checksum(parser: Parser) -> Parser:
    parser.add_argument(
        "--checksum",
        action="store_true",
        help="Compare the content of files that have the same size, if need be by reading them at the gateway.",
    )
    return parser


def _with_change(parser: Parser) -> Parser:
    parser.add_argument("paths", metavar="SOURCE … TARGET", nargs="*")
    parser.add_argument("-n", "--no-clobber", action="store_true", help="Never replace what is there.")
    parser.add_argument("-c", "--continue-on-error", dest="goes_on", action="store_true", help=_GOES_ON)
    return parser


_PARSERS = {
    "login": _login,
    "logout": _logout,
    "whoami": _whoami,
    "ls": _ls,
    "put": _put,
    "get": _get,
    "sync": _sync,
    "cat": _cat,
    "mkdir": _mkdir,
    "mv": _mv,
    "cp": _cp,
    "rm": _rm,
    "completion": _completion,
}
_LEAST = {"put": 2, "get": 1, "sync": 2, "cat": 1, "mkdir": 1, "mv": 2, "cp": 2, "rm": 1}
"""How many paths a command needs."""
