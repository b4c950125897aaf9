"""DISCO: peers that train together without a server, as published and in a form that holds."""
