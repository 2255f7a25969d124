"""What one actor can do, whatever the front end: nothing here knows HTTP."""

from portico.operations.actor import Actor, Authentication
from portico.operations.gateway import Gateway
from portico.operations.jobs import Job
from portico.operations.operations import OnConflict, Operations
from portico.operations.request_context import RequestContext
from portico.operations.resumable import ResumableUploads
from portico.operations.upload_status import NewUpload, UploadStatus
from portico.operations.uploads import Upload

__all__ = [
    "Actor",
    "Authentication",
    "Gateway",
    "Job",
    "NewUpload",
    "OnConflict",
    "Operations",
    "RequestContext",
    "ResumableUploads",
    "Upload",
    "UploadStatus",
]
