"""`Operations`: what one actor can do. Every front end works through it, and only through it."""

from functools import cached_property, partial

import msgspec

from portico.model.paths import Path
from portico.model.rights import Right
from portico.operations.account import AccountServices, OwnAccount
from portico.operations.activity import Activity, ActivityServices
from portico.operations.actors.actor import Actor
from portico.operations.actors.tree import Tree, Trees
from portico.operations.files.files import Files, FileServices
from portico.operations.jobs import Jobs, UserJobs
from portico.operations.rewind.own import OwnRewinds, OwnRewindServices
from portico.operations.sharing.link_limits import LinkLimits, Usage, not_by_link
from portico.operations.sharing.links import Shares, ShareServices
from portico.operations.trash import Trash
from portico.operations.uploads.access import UploadServices
from portico.operations.uploads.concatenation import Concatenation
from portico.operations.uploads.resumable import ResumableUploads


class Features(msgspec.Struct, frozen=True):
    trees: Trees
    usage: Usage
    files: FileServices
    uploads: UploadServices
    shares: ShareServices
    jobs: Jobs
    account: AccountServices
    activity: ActivityServices
    rewinds: OwnRewindServices


class Operations:
    """Made for one request."""

    def __init__(self, features: Features, actor: Actor) -> None:
        self._features = features
        self._actor = actor
        self._tree = Tree(features.trees, actor)
        self._limits = LinkLimits(features.usage, actor)

    def allows(self, right: Right, path: Path) -> bool:
        """Whether the actor has a right there. In a virtual folder, the front end need not know: the operation does."""
        mount = self._tree.reach.at(path)
        return mount is None or right in mount.rights

    def lists(self, folder: Path) -> bool:
        """Whether the actor may see a folder: not if all that it may have is one file."""
        return self.allows(Right.LIST, folder) and self._actor.only is None

    @cached_property
    def files(self) -> Files:
        return Files(self._features.files, self._tree, self._limits)

    @property
    def uploads(self) -> ResumableUploads:
        """Files that are sent in several requests."""
        return ResumableUploads(self._features.uploads, self._tree, self._limits)

    @property
    def concatenation(self) -> Concatenation:
        """Files that are sent in parts, several at the same time."""
        return Concatenation(self._features.uploads, self._tree, self._limits)

    @property
    def trash(self) -> Trash:
        """What was deleted or replaced, and can be brought back."""
        self._refuse_guests()
        return Trash(self._features.files.journal, self._features.files.links, self._tree)

    @property
    def activity(self) -> Activity:
        """What happened to files and folders."""
        return Activity(self._features.activity, self._tree, self.trash)

    @property
    def shares(self) -> Shares:
        return Shares(self._features.shares, self._tree)

    @property
    def jobs(self) -> "UserJobs[Operations]":
        """Changes that continue after their request was answered."""
        self._refuse_guests()
        make = partial(Operations, self._features)
        return UserJobs(self._features.jobs, self._actor, make, lambda made, folder: made.files.count_files(folder))

    @property
    def rewinds(self) -> OwnRewinds:
        """What undoes the user's own changes."""
        return OwnRewinds(self._features.rewinds, self._tree)

    @property
    def account(self) -> OwnAccount:
        return OwnAccount(self._features.account, self._actor)

    def _refuse_guests(self) -> None:
        if self._actor.guest:
            raise not_by_link()
