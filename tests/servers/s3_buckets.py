"""Making and removing buckets, from outside of the provider."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession

_session = AioSession()


@asynccontextmanager
async def plain_client(options: Mapping[str, str]) -> AsyncIterator[Any]:
    """The SDK as it comes, with a connection's options."""
    async with _session.create_client(
        "s3",
        region_name=options.get("region", "us-east-1"),
        endpoint_url=options["endpoint-url"],
        aws_access_key_id=options["access-key-id"],
        aws_secret_access_key=options["secret-access-key"],
        config=AioConfig(s3={"addressing_style": "path"}, request_checksum_calculation="when_required"),
    ) as client:
        yield client


async def make_buckets(options: Mapping[str, str], buckets: Iterable[str]) -> None:
    async with plain_client(options) as client:
        for bucket in buckets:
            await client.create_bucket(Bucket=bucket)


async def remove_buckets(options: Mapping[str, str], buckets: Iterable[str]) -> None:
    """With their content: two thousand tests must not keep it all in memory."""
    async with plain_client(options) as client:
        for bucket in buckets:
            async for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
                for found in page.get("Contents", []):
                    await client.delete_object(Bucket=bucket, Key=found["Key"])
            uploads = await client.list_multipart_uploads(Bucket=bucket)
            for upload in uploads.get("Uploads", []):
                await client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
            await client.delete_bucket(Bucket=bucket)
