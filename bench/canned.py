"""One page of 1000 entries, as S3, Blob storage and GCS send it."""

import json

ENTRIES = 1000
FOLDER = "reports/2026/"
"""The only folder of the canned stores that is not empty."""


def _name(number: int) -> str:
    return f"reports/2026/quarter-{number % 4 + 1}-{number:06d}.csv"


def s3_page() -> bytes:
    contents = "".join(
        f"<Contents><Key>{_name(number)}</Key><LastModified>2026-11-14T09:30:00.000Z</LastModified>"
        f"<ETag>&quot;9b2cf535f27731c974343645a3985328&quot;</ETag><Size>{number * 7}</Size>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
        for number in range(ENTRIES)
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bench</Name>'
        f"<Prefix>reports/2026/</Prefix><KeyCount>{ENTRIES}</KeyCount><MaxKeys>1000</MaxKeys><Delimiter>/</Delimiter>"
        f"<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"
    ).encode()


def blob_page() -> bytes:
    blobs = "".join(
        f"<Blob><Name>{_name(number)}</Name><Properties><Creation-Time>Sat, 14 Nov 2026 09:30:00 GMT</Creation-Time>"
        "<Last-Modified>Sat, 14 Nov 2026 09:30:00 GMT</Last-Modified><Etag>0x8DB8C1E2F3A4B5C</Etag>"
        f"<Content-Length>{number * 7}</Content-Length><Content-Type>text/csv</Content-Type><Content-Encoding />"
        "<Content-Language /><Content-CRC64 /><Content-MD5>mytFNfJ3MclzQ0ZFo5hTKA==</Content-MD5><Cache-Control />"
        "<Content-Disposition /><BlobType>BlockBlob</BlobType><AccessTier>Hot</AccessTier>"
        "<AccessTierInferred>true</AccessTierInferred><LeaseStatus>unlocked</LeaseStatus>"
        "<LeaseState>available</LeaseState><ServerEncrypted>true</ServerEncrypted></Properties>"
        "<Metadata /><OrMetadata /></Blob>"
        for number in range(ENTRIES)
    )
    return (
        '\ufeff<?xml version="1.0" encoding="utf-8"?><EnumerationResults '
        'ServiceEndpoint="http://127.0.0.1/bench" ContainerName="bench"><Prefix>reports/2026/</Prefix>'
        f"<MaxResults>1000</MaxResults><Delimiter>/</Delimiter><Blobs>{blobs}</Blobs><NextMarker /></EnumerationResults>"
    ).encode()


def gcs_page(fields: str) -> bytes:
    """The page; `fields` selects, as it does at the service, what is returned for each object."""
    items = [
        {
            "name": _name(number),
            "size": str(number * 7),
            "updated": "2026-11-14T09:30:00.000Z",
            "contentType": "text/csv",
        }
        for number in range(ENTRIES)
    ]
    if "kind" in fields or not fields:
        for number, item in enumerate(items):
            place = f"https://www.googleapis.com/storage/v1/b/bench/o/{number}"
            item |= {
                "kind": "storage#object",
                "id": f"bench/{item['name']}/1700000000000000",
                "selfLink": place,
                "mediaLink": f"{place}?generation=1700000000000000&alt=media",
                "bucket": "bench",
                "generation": "1700000000000000",
                "metageneration": "1",
                "storageClass": "STANDARD",
                "md5Hash": "mytFNfJ3MclzQ0ZFo5hTKA==",
                "crc32c": "yZRlqg==",
                "etag": "CKih16GjycICEAE=",
                "timeCreated": "2026-11-14T09:30:00.000Z",
                "timeStorageClassUpdated": "2026-11-14T09:30:00.000Z",
            }
    # The service indents its answers unless it is asked not to.
    return json.dumps({"kind": "storage#objects", "items": items}, indent=None if fields else 2).encode()
