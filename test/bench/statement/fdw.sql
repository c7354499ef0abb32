-- The shop as partitions of postgres_fdw.  What PostgreSQL hashes to remainder r is
-- in database peer_<r + 1>, see 50_statement.sh.
CREATE EXTENSION postgres_fdw;
CREATE TABLE customers (customer_id bigint, name text, region text) PARTITION BY HASH (customer_id);
CREATE TABLE orders (customer_id bigint, order_id bigint, created timestamptz, status text, total numeric(12,2)) PARTITION BY HASH (customer_id);
CREATE TABLE items (customer_id bigint, order_id bigint, line int, product_id int, qty int, price numeric) PARTITION BY HASH (customer_id);
CREATE TABLE products (product_id int PRIMARY KEY, name text, category text);
INSERT INTO products SELECT p, 'product ' || p, 'category ' || p % 20 FROM generate_series(1, 1000) p;
SELECT format('CREATE SERVER peer_%1$s FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %2$L, port %3$L, dbname %4$L, fetch_size ''10000'', async_capable ''true'')',
	p, :'host', :'port', 'peer_' || p) FROM generate_series(0, 3) p \gexec
SELECT format('CREATE USER MAPPING FOR CURRENT_USER SERVER peer_%s OPTIONS (user %L)', p, CURRENT_USER) FROM generate_series(0, 3) p \gexec
SELECT format('CREATE FOREIGN TABLE %1$I PARTITION OF %2$I FOR VALUES WITH (MODULUS 4, REMAINDER %3$s) SERVER peer_%4$s OPTIONS (table_name %2$L)',
	t || '_' || r, t, r, (r + 1) % 4) FROM generate_series(0, 3) r, unnest('{customers,orders,items}'::text[]) t \gexec
DO $$ BEGIN
	EXECUTE format('ALTER DATABASE %I SET enable_partitionwise_join = on', current_database());
	EXECUTE format('ALTER DATABASE %I SET enable_partitionwise_aggregate = on', current_database());
END $$;
