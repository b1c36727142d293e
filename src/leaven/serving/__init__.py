"""Shared by all HTTP servers of Leaven: the token, the guards before an application, and the connections."""
