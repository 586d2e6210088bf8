"""The initial objects of a cluster (`objects`), which every start creates where they are missing (`bootstrap`), and
the addresses of all servers in the Endpoints of the API's Service (`serving`).
"""
