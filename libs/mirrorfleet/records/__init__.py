"""Control topics, one module each: key, value and version. Bytes in, values out."""
