-- The table of a D1 database: npx wrangler d1 execute tollgate --remote --file schema.sql
CREATE TABLE IF NOT EXISTS tollgate_values (
  name TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL,
  keep_until INTEGER NOT NULL,
  version INTEGER NOT NULL DEFAULT 1
) WITHOUT ROWID;
