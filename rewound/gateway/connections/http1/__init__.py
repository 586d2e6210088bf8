"""HTTP/1.1: `connection` reads requests and is the codec of responses; `parser` uses httptools."""
