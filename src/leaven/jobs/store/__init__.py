"""Where jobs are kept: in an SQLite file, or in PostgreSQL for a team."""
