-- The plain database: what the clients call does nothing.
CREATE SCHEMA shardlet;
CREATE FUNCTION shardlet.distribute(tbl regclass, map name, key text = NULL, drop_foreign_keys bool = false, local_unique bool = false)
	RETURNS void LANGUAGE sql BEGIN ATOMIC END;
CREATE FUNCTION shardlet.distribute_tables(tbls regclass[], map name, keys text[], drop_foreign_keys bool = false, local_unique bool = false)
	RETURNS void LANGUAGE sql BEGIN ATOMIC END;
CREATE FUNCTION shardlet.make_reference(tbl regclass) RETURNS void LANGUAGE sql BEGIN ATOMIC END;
