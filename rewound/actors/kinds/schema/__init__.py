"""The types of fields in which kinds are declared, and the decoders derived from them; start with `decoder`."""
