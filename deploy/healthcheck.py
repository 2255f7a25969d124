"""The health check of the container: whether the gateway in it responds.

Only that: a node whose database is gone must not be restarted. Load balancers use /readyz.
"""

import http.client
import os
import ssl
import sys

port = int(os.environ.get("PORTICO_SERVER_PORT", "8080"))
if os.environ.get("PORTICO_SERVER_TLS", "off") == "off":
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=4)
else:
    context = ssl.create_default_context()
    context.check_hostname = False  # the certificate is for the public name
    context.verify_mode = ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=4, context=context)
connection.request("GET", "/healthz")
# 403: only the proxy may ask, but the process has answered.
sys.exit(connection.getresponse().status not in (200, 403))
