"""Commands for files on a gateway. They import only the client and the standard library."""
