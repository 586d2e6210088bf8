"""Journals of other servers: `record/` captures or imports them, `replay/` plays them, `query/` searches them."""
