"""The commands that talk to a gateway: their arguments, options and help texts."""

from portico.cli.console.exits import UsageMistake
from portico.cli.console.output import json_option
from portico.cli.console.parser import Command, Group, Parser
from portico.cli.remote.command import runs

MAX_JOBS = 64

_PATTERNS = "A path may be a pattern with *, ? and []. Quote it, or the shell expands it to local files."


def _login(parser: Parser) -> None:
    parser.add_argument(
        "url", "URL", optional=True, help="The gateway. Default: PORTICO_URL, or the last one."
    )
    parser.add_option(
        "-u", "--user", metavar="NAME", help="The Web User. Default: the last one, or a prompt."
    )
    parser.add_flag("--password-stdin", help="Read the password from standard input.")
    parser.add_flag(
        "--key-stdin", help="Read an API key from standard input, and save it instead of signing in."
    )
    parser.add_exclusive("--password-stdin", "--key-stdin")
    parser.add_option("--ca", metavar="FILE", help="The gateway's certificate, if it is self-signed.")


def _ls(parser: Parser) -> None:
    parser.add_paths("[PATH …]", {"PATH": "A folder, a file, or a pattern. Default: the root."}, at_least=0)
    parser.add_flag("-l", "--long", help="Show sizes and times.")
    parser.add_flag("-h", "--human", help="Show sizes like 1.2 GB; implies -l.")
    parser.add_flag("-R", "--recursive", help="List everything below, with full paths.")


def _find(parser: Parser) -> None:
    parser.add_paths("[PATH …]", {"PATH": "The folder to search. Default: the root."}, at_least=0)
    parser.add_option("--name", metavar="TEXT", help="A part of the name, or a pattern with *, ? and [].")
    parser.add_flag("--match-case", help="Distinguish upper and lower case.")
    parser.add_option(
        "--type",
        metavar="TYPE",
        help="file (f), folder (d), or a content type or its beginning, like image/ or text/csv.",
    )
    parser.add_option("--larger", metavar="SIZE", help="Of at least that size, like 500MB or 10GiB.")
    parser.add_option("--smaller", metavar="SIZE", help="Of at most that size.")
    parser.add_option("--newer", metavar="AGE", help="Modified since then: an age like 7d, or a date.")
    parser.add_option("--older", metavar="AGE", help="Not modified since then.")
    parser.add_flag("-l", "--long", help="Show sizes and times.")
    parser.add_flag("-h", "--human", help="Show sizes like 1.2 GB; implies -l.")


def _put(parser: Parser) -> None:
    parser.add_paths(
        "SOURCE … TARGET",
        {
            "SOURCE": "A local file, a pattern, a folder (with -r), or - for standard input.",
            "TARGET": "The folder or the file on the gateway.",
        },
        at_least=2,
    )
    parser.add_flag(
        "--rename",
        help="Keep both: store a file whose name is taken under another name, and print that name.",
    )


def _rename_or_no_clobber(parser: Parser) -> None:
    parser.add_exclusive("--no-clobber", "--rename")


def _get(parser: Parser) -> None:
    parser.add_paths(
        "SOURCE … [TARGET]",
        {
            "SOURCE": "A file on the gateway, a pattern, or a folder (with -r).",
            "TARGET": "The local folder or file, or - for standard output. Default: the current folder.",
        },
        at_least=1,
    )
    parser.add_flag(
        "--no-resume",
        help="Do not resume half-downloaded files of an earlier run, and keep none when interrupted.",
    )
    parser.add_flag("--continue", hidden=True, help="Accepted for compatibility; it is the default.")
    parser.add_flag("--zip", help="Download the sources as one ZIP; TARGET is that file, or its folder.")
    parser.set_defaults(no_times=False, verify=False)


def _sync(parser: Parser) -> None:
    parser.add_argument(
        "direction",
        "up|down",
        choices=("up", "down"),
        convert=_direction,
        missing="say 'up' or 'down', then the source and the target",
        help="up: to the gateway; down: from the gateway.",
    )
    parser.add_paths(
        "SOURCE TARGET",
        {
            "SOURCE": "The folder to copy: with up a local one, with down one on the gateway.",
            "TARGET": "The folder to change: with up one on the gateway, with down a local one.",
        },
        at_least=2,
    )
    parser.add_flag("--delete", help="Remove from the target what is not in the source.")
    parser.set_defaults(no_clobber=False, force=False, rename=False)


def _direction(text: str) -> str:
    if text not in ("up", "down"):
        raise UsageMistake(f"{text!r} is not a direction; use 'up' or 'down'.")
    return text


def _cat(parser: Parser) -> None:
    parser.add_paths("PATH …", {"PATH": "A file on the gateway, or a pattern."}, at_least=1)


def _mkdir(parser: Parser) -> None:
    parser.add_paths("PATH …", {"PATH": "The folder to make."}, at_least=1)
    parser.add_flag("-p", dest="parents", help="Accepted for compatibility; parents are always made.")


def _rm(parser: Parser) -> None:
    parser.add_paths("PATH …", {"PATH": "A file, a folder, or a pattern."}, at_least=1)
    parser.add_flag("--permanent", help="Delete for good: do not keep it in the trash.")


def _source_and_target(parser: Parser) -> None:
    parser.add_paths(
        "SOURCE … TARGET",
        {
            "SOURCE": "A file, a folder, or a pattern.",
            "TARGET": "The folder to put the sources into, or the new path of a single source.",
        },
        at_least=2,
    )


def _recursive(parser: Parser) -> None:
    parser.add_flag("-r", "--recursive", help="Include folders and everything in them.")


def _no_clobber(parser: Parser) -> None:
    parser.add_flag("-n", "--no-clobber", help="Never replace existing files.")


def _force(parser: Parser) -> None:
    parser.add_flag("-f", "--force", help="Transfer files that are up to date, too.")


def _continue_on_error(parser: Parser) -> None:
    parser.add_flag(
        "-c",
        "--continue-on-error",
        dest="goes_on",
        help="Continue after an error, and list all errors at the end.",
    )


def _dry_run(parser: Parser) -> None:
    parser.add_flag("--dry-run", help="Show what would be done, and do nothing.")


def _quiet(parser: Parser) -> None:
    parser.add_flag("-q", "--quiet", help="Show no progress bar and no summary.")


def _checksum(parser: Parser) -> None:
    parser.add_flag(
        "--checksum", help="Compare the content of files of equal size; may read them on the gateway."
    )


def _upload(parser: Parser) -> None:
    parser.add_flag(
        "--no-resume",
        help="Do not go on with half-sent files of an earlier run, and keep none when interrupted.",
    )
    parser.add_flag("--no-times", help="Do not keep modification times of uploaded files.")
    parser.add_flag(
        "--verify", help="Compare SHA-256 digests of files of any size; by default, of files up to 8 MiB."
    )


def _sync_transfer(parser: Parser) -> None:
    parser.add_flag(
        "--no-resume",
        help="Do not resume half-transferred files of an earlier run, and keep none when interrupted.",
    )
    parser.add_flag("--no-times", help="Do not keep modification times of transferred files.")
    parser.add_flag(
        "--verify",
        help="Compare SHA-256 digests; with up, of files of any size instead of up to 8 MiB; with down, of those that "
        "the gateway has recorded.",
    )


def _jobs(parser: Parser) -> None:
    parser.add_option(
        "-j", "--jobs", metavar="N", convert=_job_count, default=8, help="Concurrent requests. Default: 8."
    )


def _job_count(text: str) -> int:
    if text.isdecimal() and 1 <= int(text) <= MAX_JOBS:
        return int(text)
    raise UsageMistake(f"--jobs must be a whole number from 1 to {MAX_JOBS}.")


def profile_option(parser: Parser) -> None:
    parser.add_option(
        "--profile", metavar="NAME", help="The sign-in to use. Default: PORTICO_PROFILE, or 'default'."
    )


_TRANSFER = (
    _recursive,
    _no_clobber,
    _force,
    _continue_on_error,
    _dry_run,
    _quiet,
    _checksum,
    _jobs,
    json_option,
    profile_option,
)


def _job_id(parser: Parser) -> None:
    parser.add_argument("id", "ID", help="The id of a job, as the list shows it.")


def _trash_items(parser: Parser) -> None:
    parser.add_paths(
        "ITEM …", {"ITEM": "An id as 'trash list' shows it, or a path: then the last one of it."}, at_least=1
    )


def _trash_restore(parser: Parser) -> None:
    parser.add_flag("--rename", help="If the name is taken, keep both: name (1).ext.")
    parser.add_flag("--replace", help="If the name is taken, replace what has it, which goes to the trash.")


def _trash_empty(parser: Parser) -> None:
    parser.add_flag("-y", "--yes", help="Do not ask.")


_KINDS = ("download", "request", "both")


def _share_add(parser: Parser) -> None:
    parser.add_argument("path", "PATH", help="The file or folder to share.")
    parser.add_option(
        "--kind",
        metavar="KIND",
        default="download",
        choices=_KINDS,
        help="What guests may do: download, request (send files and see nothing), or both.",
    )
    parser.add_option("--title", metavar="TEXT", help="A title that guests see.")
    parser.add_option("--note", metavar="TEXT", help="A message to guests.")
    parser.add_flag("--password-stdin", help="Read a password for the link from standard input.")
    parser.add_option("--expires", metavar="WHEN", help="A time from now, like 7d or 12h, or a date.")
    parser.add_option("--max-downloads", metavar="N", help="How many downloads there may be.")
    parser.add_option("--max-uploads", metavar="N", help="How many files may be sent.")
    parser.add_option("--max-bytes", metavar="SIZE", help="How much may be sent in all, like 10GiB.")
    parser.add_option("--types", metavar="LIST", help="What may be sent: .pdf,image/*")
    parser.add_flag("--no-name", help="Do not ask senders for their name.")
    parser.add_flag("--folder-per-sender", help="A folder for each sender.")


def _share_id(parser: Parser) -> None:
    parser.add_argument("id", "ID", help="From 'portico share list'.")


def _receipt_key(parser: Parser) -> None:
    parser.add_option(
        "-o", "--output", metavar="FILE", help="Write the key to a file, too; - is standard output."
    )


def _receipt_verify(parser: Parser) -> None:
    parser.add_argument("file", "FILE", help="The file that was uploaded, or downloaded again.")
    parser.add_argument(
        "receipt", "RECEIPT", help="A file with the receipt or the response that has it; - is standard input."
    )
    parser.add_option(
        "--key",
        metavar="FILE",
        help="The gateway's key, as a JWK set. Default: those that 'receipt key' fetched.",
    )


COMMANDS = {
    "login": Command(
        runs("signin", "login"),
        "Sign in, and stay signed in. The token is kept in the system's key ring, or in a file that only you can "
        "read. The password is asked for, or read from standard input; it is not kept.",
        (_login, profile_option),
        "Example:\n  portico login https://files.example.com --user anna",
    ),
    "logout": Command(runs("signin", "logout"), "Sign out, here and on the gateway.", (profile_option,)),
    "whoami": Command(
        runs("signin", "whoami"),
        "Show who is signed in, where, and with which rights.",
        (json_option, profile_option),
    ),
    "ls": Command(
        runs("listing", "ls"),
        "List folders; by default the root.",
        (_ls, json_option, profile_option),
        f"{_PATTERNS}\n\nExamples:\n  portico ls -l /reports\n  portico ls '/reports/*.csv'",
        short_help=False,
    ),
    "find": Command(
        runs("listing", "search"),
        "Find files and folders by name, type, size or age.",
        (_find, json_option, profile_option),
        "Examples:\n  portico find /reports --name '*.pdf'\n  portico find --type image/ --larger 10MB --newer 7d -h",
        short_help=False,
    ),
    "put": Command(
        runs("uploads", "put"),
        "Upload files and folders. Files that are known to be up to date on the gateway are skipped.",
        (_put, *_TRANSFER, _upload, _rename_or_no_clobber),
        "TARGET is a folder if it exists as one, if it ends with a slash, or if there are several sources. A folder "
        "keeps its name in TARGET; FOLDER/. means its content.\n\n"
        "Examples:\n  portico put report.pdf /reports/\n  portico put -r photos /backup/",
    ),
    "get": Command(
        runs("downloads", "get"),
        "Download files and folders. Files that are known to be up to date here are skipped.",
        (_get, *_TRANSFER),
        "A folder keeps its name in TARGET; FOLDER/. means its content.\n\n"
        "Examples:\n  portico get /reports/2026.csv\n  portico get -r /backup/photos .\n"
        "  portico get --zip /backup/photos",
    ),
    "sync": Command(
        runs("sync", "sync"),
        "Make a folder on the gateway like a local one (up), or a local one like one on the gateway (down).",
        (
            _sync,
            _dry_run,
            _continue_on_error,
            _quiet,
            _checksum,
            _sync_transfer,
            _jobs,
            json_option,
            profile_option,
        ),
        "Examples:\n  portico sync up photos /backup/photos\n  portico sync down --delete /backup/photos photos",
    ),
    "cat": Command(
        runs("downloads", "cat"),
        "Write files to standard output, one after the other.",
        (_cat, profile_option),
        f"{_PATTERNS}\n\nExample:\n  portico cat '/logs/*.txt' | sort",
    ),
    "mkdir": Command(
        runs("changes", "mkdir"),
        "Make folders, with their parents. Existing folders are fine.",
        (_mkdir, json_option, profile_option),
        "Example:\n  portico mkdir /reports/2026",
    ),
    "mv": Command(
        runs("changes", "mv"),
        "Move or rename files and folders on the gateway.",
        (_source_and_target, _no_clobber, _continue_on_error, json_option, profile_option),
        f"{_PATTERNS}\n\nExample:\n  portico mv '/reports/2025*' /archive/",
    ),
    "cp": Command(
        runs("changes", "cp"),
        "Copy files and folders on the gateway.",
        (_source_and_target, _recursive, _no_clobber, _continue_on_error, json_option, profile_option),
        f"{_PATTERNS}\n\nExample:\n  portico cp -r /reports /archive/",
    ),
    "rm": Command(
        runs("changes", "rm"),
        "Remove files and empty folders on the gateway.",
        (_rm, _recursive, _continue_on_error, _dry_run, json_option, profile_option),
        f"{_PATTERNS}\n\nExample:\n  portico rm -r --dry-run /old",
    ),
    "jobs": Group(
        "List and cancel long moves, copies, deletions, restores and removals from the trash on the gateway.",
        {
            "list": Command(
                runs("jobs", "list_jobs"), "List your jobs, the newest first.", (json_option, profile_option)
            ),
            "cancel": Command(
                runs("jobs", "cancel_job"),
                "Cancel a job, or forget one that has ended.",
                (_job_id, profile_option),
            ),
        },
        "Example:\n  portico jobs list",
    ),
    "trash": Group(
        "Bring back what was deleted or replaced, or remove it for good.",
        {
            "list": Command(
                runs("trash", "list_trash"),
                "List what can be brought back, the newest first: id, time, size, path.",
                (json_option, profile_option),
            ),
            "restore": Command(
                runs("trash", "restore_items"),
                "Bring items back to where they were.",
                (_trash_items, _trash_restore, json_option, profile_option),
                "Examples:\n  portico trash restore /reports/2026.csv\n"
                "  portico trash restore --replace 019d8a2b4c5d6e7f80911223",
            ),
            "remove": Command(
                runs("trash", "remove_items"), "Remove items for good.", (_trash_items, profile_option)
            ),
            "empty": Command(
                runs("trash", "empty_trash"),
                "Remove everything in the trash for good.",
                (_trash_empty, profile_option),
            ),
        },
    ),
    "share": Group(
        "Share files and folders with people without an account.",
        {
            "add": Command(
                runs("shares", "add"),
                "Make a share link, and print its address, which is shown only now.",
                (_share_add, profile_option, json_option),
                "Examples:\n"
                "  portico share add /reports/2026.pdf --expires 7d --max-downloads 1\n"
                "  portico share add /inbox --kind request --title 'Your documents' --folder-per-sender",
            ),
            "list": Command(runs("shares", "list_"), "List your links.", (profile_option, json_option)),
            "address": Command(
                runs("shares", "address"),
                "Give a link a new address, and print it. The former one does not work any more, also for those who have opened it.",
                (_share_id, profile_option, json_option),
            ),
            "end": Command(
                runs("shares", "end"), "End a link: nobody can use it any more.", (_share_id, profile_option)
            ),
            "log": Command(
                runs("shares", "log"),
                "Show who did what with a link, the newest first.",
                (_share_id, profile_option, json_option),
            ),
        },
    ),
    "receipt": Group(
        "Verify receipts: what a gateway says that it stored.",
        {
            "key": Command(
                runs("receipts", "fetch_key"),
                "Fetch the gateway's key for receipts, and keep it, so that receipts can be verified without the gateway.",
                (_receipt_key, profile_option),
            ),
            "verify": Command(
                runs("receipts", "verify_receipt"),
                "Check that a receipt was signed by the gateway, and that a file is the one it speaks of. Nothing is sent.",
                (_receipt_verify, json_option),
                "Needs the package cryptography: pip install 'portico-gateway[receipts]'.\n\n"
                "Example:\n"
                "  portico receipt key                                      # once\n"
                "  portico put --json report.pdf /reports/ > report.receipt\n"
                "  portico receipt verify report.pdf report.receipt         # without the gateway",
            ),
        },
    ),
}
