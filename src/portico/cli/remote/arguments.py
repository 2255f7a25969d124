"""The commands that talk to a gateway: their arguments, options and help texts."""

from portico.cli.console.exits import UsageMistake
from portico.cli.console.output import json_option
from portico.cli.console.parser import Command, Group, Parser
from portico.cli.remote.command import runs

MAX_JOBS = 64

_PATTERNS = (
    "A path can be a pattern with *, ? and []. Quote it; otherwise the shell expands it to local files."
)


def _login(parser: Parser) -> None:
    parser.add_argument(
        "url", "URL", optional=True, help="The gateway's URL. Default: PORTICO_URL, or the last one used."
    )
    parser.add_option(
        "-u", "--user", metavar="NAME", help="The Web User. Default: the last one used, or a prompt."
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
    parser.add_option(
        "--name",
        metavar="TEXT",
        help="Find names that contain this text, or match this pattern with *, ? and [].",
    )
    parser.add_flag("--match-case", help="Match upper and lower case exactly.")
    parser.add_option(
        "--type",
        metavar="TYPE",
        help="Find only files (f), folders (d), or files whose content type starts like this, such as "
        "image/ or text/csv.",
    )
    parser.add_option(
        "--larger", metavar="SIZE", help="Find files of at least this size, like 500MB or 10GiB."
    )
    parser.add_option("--smaller", metavar="SIZE", help="Find files of at most this size.")
    parser.add_option(
        "--newer", metavar="AGE", help="Find files modified since then: an age like 7d, or a date."
    )
    parser.add_option("--older", metavar="AGE", help="Find files not modified since then.")
    parser.add_flag("-l", "--long", help="Show sizes and times.")
    parser.add_flag("-h", "--human", help="Show sizes like 1.2 GB; implies -l.")


def _put(parser: Parser) -> None:
    parser.add_paths(
        "SOURCE … TARGET",
        {
            "SOURCE": "A local file, a pattern, a folder (with -r), or - for standard input.",
            "TARGET": "The target folder or file on the gateway.",
        },
        at_least=2,
    )
    parser.add_flag(
        "--rename",
        help="Keep both: if a name is taken, store the file under a free name and print that name.",
    )


def _rename_or_no_clobber(parser: Parser) -> None:
    parser.add_exclusive("--no-clobber", "--rename")


def _get(parser: Parser) -> None:
    parser.add_paths(
        "SOURCE … [TARGET]",
        {
            "SOURCE": "A file on the gateway, a pattern, or a folder (with -r).",
            "TARGET": "The local target folder or file, or - for standard output. Default: the current "
            "folder.",
        },
        at_least=1,
    )
    parser.add_flag(
        "--no-resume",
        help="Don't resume partial downloads of an earlier run, and keep none when interrupted.",
    )
    parser.add_flag("--continue", hidden=True, help="Accepted for compatibility; this is the default.")
    parser.add_flag("--zip", help="Download the sources as one ZIP. TARGET is the ZIP file or its folder.")
    parser.set_defaults(no_times=False, verify=False)


def _sync(parser: Parser) -> None:
    parser.add_argument(
        "direction",
        "up|down",
        choices=("up", "down"),
        convert=_direction,
        missing="the direction is missing; write 'up' or 'down', then the source and the target",
        help="up: to the gateway; down: from the gateway.",
    )
    parser.add_paths(
        "SOURCE TARGET",
        {
            "SOURCE": "The folder to copy from: local with 'up', on the gateway with 'down'.",
            "TARGET": "The folder to change: on the gateway with 'up', local with 'down'.",
        },
        at_least=2,
    )
    parser.add_flag("--delete", help="Delete files and folders from the target that aren't in the source.")
    parser.set_defaults(no_clobber=False, force=False, rename=False)


def _direction(text: str) -> str:
    if text not in ("up", "down"):
        raise UsageMistake(f"{text!r} is not a direction; use 'up' or 'down'.")
    return text


def _cat(parser: Parser) -> None:
    parser.add_paths("PATH …", {"PATH": "A file on the gateway, or a pattern."}, at_least=1)


def _mkdir(parser: Parser) -> None:
    parser.add_paths("PATH …", {"PATH": "The folder to create."}, at_least=1)
    parser.add_flag(
        "-p", dest="parents", help="Accepted for compatibility; parent folders are always created."
    )


def _rm(parser: Parser) -> None:
    parser.add_paths("PATH …", {"PATH": "A file, a folder, or a pattern."}, at_least=1)
    parser.add_flag("--permanent", help="Delete permanently, without the trash.")


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
    parser.add_flag("-f", "--force", help="Also transfer files that are up to date.")


def _continue_on_error(parser: Parser) -> None:
    parser.add_flag(
        "-c",
        "--continue-on-error",
        dest="goes_on",
        help="Continue after errors, and list them all at the end.",
    )


def _dry_run(parser: Parser) -> None:
    parser.add_flag("--dry-run", help="Show what would be done, without doing it.")


def _quiet(parser: Parser) -> None:
    parser.add_flag("-q", "--quiet", help="Don't show a progress bar or summary.")


def _checksum(parser: Parser) -> None:
    parser.add_flag(
        "--checksum",
        help="Compare the content of files of equal size. The gateway may have to read its files.",
    )


def _upload(parser: Parser) -> None:
    parser.add_flag(
        "--no-resume",
        help="Don't resume partial uploads of an earlier run, and keep none when interrupted.",
    )
    parser.add_flag("--no-times", help="Don't keep the modification times of uploaded files.")
    parser.add_flag(
        "--verify",
        help="Verify all files by SHA-256 digest. By default, only files up to 8 MiB are verified.",
    )


def _sync_transfer(parser: Parser) -> None:
    parser.add_flag(
        "--no-resume",
        help="Don't resume partial transfers of an earlier run, and keep none when interrupted.",
    )
    parser.add_flag("--no-times", help="Don't keep the modification times of transferred files.")
    parser.add_flag(
        "--verify",
        help="Verify files by SHA-256 digest: with 'up', all files instead of only those up to 8 MiB; "
        "with 'down', all files with a digest recorded on the gateway.",
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
        "--profile", metavar="NAME", help="The saved sign-in to use. Default: PORTICO_PROFILE, or 'default'."
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
    parser.add_argument("id", "ID", help="The job's id, as shown in the list.")


def _trash_items(parser: Parser) -> None:
    parser.add_paths(
        "ITEM …", {"ITEM": "An id from 'trash list', or a path for its most recent item."}, at_least=1
    )


def _trash_restore(parser: Parser) -> None:
    parser.add_flag("--rename", help="If the name is taken, keep both, as name (1).ext.")
    parser.add_flag(
        "--replace", help="If the name is taken, replace the existing item, which goes to the trash."
    )


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
        help="What guests can do: download, request (send files without seeing any), or both.",
    )
    parser.add_option("--title", metavar="TEXT", help="A title shown to guests.")
    parser.add_option("--note", metavar="TEXT", help="A message to guests.")
    parser.add_flag("--password-stdin", help="Read a password for the link from standard input.")
    parser.add_option(
        "--expires", metavar="WHEN", help="When the link expires: a time from now, like 7d or 12h, or a date."
    )
    parser.add_option("--max-downloads", metavar="N", help="How many downloads are allowed.")
    parser.add_option("--max-uploads", metavar="N", help="How many files guests can send.")
    parser.add_option("--max-bytes", metavar="SIZE", help="How much guests can send in total, like 10GiB.")
    parser.add_option("--types", metavar="LIST", help="Which file types guests can send, like .pdf,image/*.")
    parser.add_flag("--no-name", help="Don't ask senders for their name.")
    parser.add_flag("--folder-per-sender", help="Make a separate folder for each sender.")


def _share_id(parser: Parser) -> None:
    parser.add_argument("id", "ID", help="The link's id, as shown by 'portico share list'.")


def _receipt_key(parser: Parser) -> None:
    parser.add_option(
        "-o", "--output", metavar="FILE", help="Also write the key to a file, or to standard output with -."
    )


def _receipt_verify(parser: Parser) -> None:
    parser.add_argument("file", "FILE", help="The file as it was uploaded or downloaded.")
    parser.add_argument(
        "receipt",
        "RECEIPT",
        help="A file with the receipt or with the response that contains it, or - for standard input.",
    )
    parser.add_option(
        "--key",
        metavar="FILE",
        help="The gateway's key, as a JWK set. Default: the keys fetched with 'receipt key'.",
    )


COMMANDS = {
    "login": Command(
        runs("signin", "login"),
        "Sign in and stay signed in. The token is saved in the system's key ring, or in a file "
        "only you can read. You are prompted for the password, which is not saved.",
        (_login, profile_option),
        "Example:\n  portico login https://files.example.com --user anna",
    ),
    "logout": Command(runs("signin", "logout"), "Sign out, locally and on the gateway.", (profile_option,)),
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
        "Upload files and folders. Files that are already up to date on the gateway are skipped.",
        (_put, *_TRANSFER, _upload, _rename_or_no_clobber),
        "TARGET is a folder if that folder exists, if TARGET ends with a slash, or if there are "
        "several sources. A folder keeps its name in TARGET; FOLDER/. means its content.\n\n"
        "Examples:\n  portico put report.pdf /reports/\n  portico put -r photos /backup/",
    ),
    "get": Command(
        runs("downloads", "get"),
        "Download files and folders. Local files that are already up to date are skipped.",
        (_get, *_TRANSFER),
        "A folder keeps its name in TARGET; FOLDER/. means its content.\n\n"
        "Examples:\n  portico get /reports/2026.csv\n  portico get -r /backup/photos .\n"
        "  portico get --zip /backup/photos",
    ),
    "sync": Command(
        runs("sync", "sync"),
        "Make a folder on the gateway like a local one (up), or a local folder like one on the "
        "gateway (down).",
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
        "Create folders and their parents. Existing folders are fine.",
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
        "List and cancel long-running jobs on the gateway: moves, copies, deletions, restores and "
        "removals from the trash.",
        {
            "list": Command(
                runs("jobs", "list_jobs"), "List your jobs, newest first.", (json_option, profile_option)
            ),
            "cancel": Command(
                runs("jobs", "cancel_job"),
                "Cancel a job, or remove a finished one from the list.",
                (_job_id, profile_option),
            ),
        },
        "Example:\n  portico jobs list",
    ),
    "trash": Group(
        "Restore deleted or replaced files, or remove them permanently.",
        {
            "list": Command(
                runs("trash", "list_trash"),
                "List the items in the trash, newest first: id, time, size, path.",
                (json_option, profile_option),
            ),
            "restore": Command(
                runs("trash", "restore_items"),
                "Restore items to their original place.",
                (_trash_items, _trash_restore, json_option, profile_option),
                "Examples:\n  portico trash restore /reports/2026.csv\n"
                "  portico trash restore --replace 019d8a2b4c5d6e7f80911223",
            ),
            "remove": Command(
                runs("trash", "remove_items"), "Remove items permanently.", (_trash_items, profile_option)
            ),
            "empty": Command(
                runs("trash", "empty_trash"),
                "Remove everything in the trash permanently.",
                (_trash_empty, profile_option),
            ),
        },
    ),
    "share": Group(
        "Share files and folders with people who have no account.",
        {
            "add": Command(
                runs("shares", "add"),
                "Create a share link and print its URL, which is shown only once.",
                (_share_add, profile_option, json_option),
                "Examples:\n"
                "  portico share add /reports/2026.pdf --expires 7d --max-downloads 1\n"
                "  portico share add /inbox --kind request --title 'Your documents' --folder-per-sender",
            ),
            "list": Command(runs("shares", "list_"), "List your links.", (profile_option, json_option)),
            "address": Command(
                runs("shares", "address"),
                "Give a link a new URL and print it. The old URL stops working, even for guests "
                "who have opened it.",
                (_share_id, profile_option, json_option),
            ),
            "end": Command(
                runs("shares", "end"),
                "End a link. It stops working for everyone.",
                (_share_id, profile_option),
            ),
            "log": Command(
                runs("shares", "log"),
                "Show who did what with a link, newest first.",
                (_share_id, profile_option, json_option),
            ),
        },
    ),
    "receipt": Group(
        "Verify receipts, with which a gateway confirms what it stored.",
        {
            "key": Command(
                runs("receipts", "fetch_key"),
                "Fetch and save the gateway's key for receipts, so that you can verify receipts "
                "without the gateway.",
                (_receipt_key, profile_option),
            ),
            "verify": Command(
                runs("receipts", "verify_receipt"),
                "Check that the gateway signed a receipt and that the receipt belongs to a file. "
                "Nothing is sent.",
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
