-- The tables and their rows, made the same on both sides by deterministic SQL.
-- OraclePasses.pm says which of them are distributed.

CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN posint AS int CHECK (VALUE > 0);
CREATE TYPE point3 AS (x int, y int, label text);
CREATE SCHEMA "Odd Schema";

-- A column that was dropped makes attribute numbers differ from column numbers.
CREATE TABLE products (
	product_id int PRIMARY KEY,
	gone int,
	name text NOT NULL,
	category text
);
ALTER TABLE products DROP COLUMN gone;
INSERT INTO products SELECT g, 'product ' || g, 'category ' || g % 7 FROM generate_series(1, 50) g;

CREATE TABLE regions (region text PRIMARY KEY, tax numeric, chief text UNIQUE);
INSERT INTO regions VALUES ('north', 0.10, 'Ada'), ('south', 0.07, 'Bo'), ('east', NULL, 'Cy'), ('nowhere', 0, NULL);

CREATE TABLE customers (
	customer_id bigint PRIMARY KEY,
	name text NOT NULL,
	region text
);
INSERT INTO customers
	SELECT g, 'customer ' || g, (ARRAY['north', 'south', 'east', 'west', NULL])[1 + g % 5]
	FROM generate_series(1, 200) g;

CREATE TABLE orders (
	customer_id bigint REFERENCES customers,
	gone text,
	order_id bigint,
	created timestamptz NOT NULL,
	status text DEFAULT 'new' CHECK (status IN ('new', 'paid', 'sent', 'done', 'void')),
	total numeric(12,2) CONSTRAINT total_is_sane CHECK (total > -1000),
	PRIMARY KEY (customer_id, order_id)
);
ALTER TABLE orders DROP COLUMN gone;
CREATE INDEX orders_created ON orders (created);
-- Customers above 180 have no order; every seventeenth order has no total.
INSERT INTO orders
	SELECT c, o, timestamptz '2026-01-01 00:00:00+00' + (c * 791911 + o * 1047297) % 31536000 * interval '1 second',
		(ARRAY['new', 'paid', 'sent', 'done', 'void'])[1 + (c + o) % 5],
		CASE WHEN (c + o * 3) % 17 = 0 THEN NULL ELSE (c * 3571 + o * 1777) % 10000 / 100.0 END
	FROM generate_series(1, 180) c, generate_series(1, 12) o
	WHERE o <= 1 + c % 12;

CREATE TABLE items (
	customer_id bigint,
	order_id bigint,
	line int,
	product_id int REFERENCES products,
	qty int,
	price numeric,
	PRIMARY KEY (customer_id, order_id, line),
	FOREIGN KEY (customer_id, order_id) REFERENCES orders ON DELETE CASCADE
);
INSERT INTO items
	SELECT customer_id, order_id, l, NULLIF(1 + (customer_id * 3 + order_id * 5 + l) % 51, 51), 1 + (customer_id + l) % 9,
		((customer_id * 13 + order_id * 7 + l) % 1000)::numeric / 10
	FROM orders, generate_series(1, 3) l
	WHERE l <= 1 + (customer_id + order_id) % 3;

-- Duplicate rows, NULLs, no primary key, and one key with most of the rows.
CREATE TABLE skew (customer_id bigint NOT NULL, n int, v text);
INSERT INTO skew
	SELECT CASE WHEN g % 10 < 8 THEN 7 ELSE g % 50 END, NULLIF(g % 23, 5), CASE WHEN g % 11 = 0 THEN NULL ELSE 'v' || g % 13 END
	FROM generate_series(1, 600) g;

CREATE TABLE nothing (customer_id bigint PRIMARY KEY, a int, b text);

-- Every column may be NULL but the key; NOT IN and joins over it are nasty.
CREATE TABLE holes (id bigint PRIMARY KEY, a int, b int, c text, d bool);
INSERT INTO holes
	SELECT g, NULLIF(g % 7, 3), NULLIF(g % 5, 0), NULLIF('c' || g % 4, 'c2'), NULLIF(g % 3, 1) = 0
	FROM generate_series(1, 40) g;

-- Two tables of the same map with other key names and types that compare across.
CREATE TABLE visits (visitor int NOT NULL, page text, seconds real, at timestamp, PRIMARY KEY (visitor, page));
INSERT INTO visits
	SELECT g, 'page' || p, (g * p) % 100 / 4.0, timestamp '2026-03-29 01:30:00' + (g * p) * interval '7 minutes'
	FROM generate_series(1, 60) g, generate_series(1, 4) p WHERE (g + p) % 3 <> 0;

CREATE TABLE members (
	customer_id bigint NOT NULL,
	member_id int NOT NULL,
	email text NOT NULL,
	logins int NOT NULL DEFAULT 0,
	active bool DEFAULT true,
	PRIMARY KEY (customer_id, member_id),
	CONSTRAINT members_email UNIQUE (customer_id, email)
);
CREATE UNIQUE INDEX members_active ON members (customer_id, lower(email)) WHERE active;
INSERT INTO members
	SELECT c, m, 'user' || m || '@c' || c || '.example', (c * m) % 10, (c + m) % 4 <> 0
	FROM generate_series(1, 40) c, generate_series(1, 3) m;

-- A tree whose edges lead from shard to shard.
CREATE TABLE tree (node bigint PRIMARY KEY, parent bigint, label text);
INSERT INTO tree SELECT g, NULLIF(g / 3, 0), 'node ' || g FROM generate_series(1, 90) g;

-- All rows on one shard of a range map, the others empty.
CREATE TABLE lonely (id int PRIMARY KEY, val text, at timestamp);
INSERT INTO lonely SELECT g, 'val ' || g % 10, timestamp '2026-01-01' + g * interval '1 hour' FROM generate_series(1, 100) g;

CREATE TABLE days (day date NOT NULL, n int NOT NULL, note text, PRIMARY KEY (day, n));
INSERT INTO days SELECT date '2025-12-25' + g % 40, g, 'note ' || g FROM generate_series(1, 160) g;

CREATE TABLE regional (region text NOT NULL, id int NOT NULL, amount int, PRIMARY KEY (region, id));
INSERT INTO regional
	SELECT (ARRAY['north', 'south', 'east', 'west'])[1 + g % 4], g, NULLIF(g * 7 % 30, 4) FROM generate_series(1, 120) g;

CREATE TABLE accounts (
	tenant text NOT NULL,
	acct int NOT NULL,
	balance numeric(14,4) DEFAULT 0 NOT NULL CHECK (balance >= -100),
	opened date,
	PRIMARY KEY (tenant, acct)
);
INSERT INTO accounts
	SELECT (ARRAY['acme', 'Acme', 'büro', 'zoo', 'x y'])[1 + g % 5], g, (g * 1234567 % 100000) / 16.0, date '2024-02-27' + g
	FROM generate_series(1, 150) g;

CREATE TABLE codes (code text PRIMARY KEY, label text COLLATE "C", sorted text COLLATE "und-x-icu", rank int);
INSERT INTO codes
	SELECT code, upper(code), code, row_number() OVER (ORDER BY code COLLATE "C")
	FROM unnest(ARRAY['', ' ', 'a', 'A', 'a ', 'ä', 'Ä', 'z', 'Z', 'ß', 'ss', 'straße', 'STRASSE', 'éa', 'eb', 'e', '10', '9', '''', '"', '\',
		'\\n', E'tab\there', E'line\nbreak', '%', '_', 'a%b', '漢字', '😀', 'ﬁ', 'İ', 'ı', 'i', 'I', repeat('long ', 100), 'null', 'NULL', '$1', '--', ';']) code;

CREATE TABLE kinds (
	id bigint PRIMARY KEY,
	si smallint, i int, bi bigint,
	n numeric, n2 numeric(10,3), f4 real, f8 double precision,
	t text, vc varchar(10), ch char(5), b bool, by bytea,
	d date, ti time, tz timetz, ts timestamp, tstz timestamptz(3), iv interval,
	u uuid, j json, jb jsonb,
	ia int[], ta text[], m mood, p posint, c point3, ma mood[], ca point3[],
	ir int4range, nr numrange, tr tstzrange, mr int4multirange,
	ip inet, net cidr, mac macaddr, bits bit(4), vbits varbit, geo point, vec tsvector, money money
);
INSERT INTO kinds
	SELECT g, g, g * 1000, g * 10000000000, g / 7.0, g / 3.0, g / 2.0, g * 1.1,
		'text ' || g, 'vc' || g, 'ch' || g % 3, g % 2 = 0, decode(lpad(to_hex(g * 65521), 8, '0'), 'hex'),
		date '2024-02-25' + g, time '23:59:00' + g * interval '7 seconds', timetz '12:00:00+05:45' + g * interval '1 minute',
		timestamp '2026-03-29 00:00:00' + g * interval '20 minutes', timestamptz '2026-10-25 00:00:00+00' + g * interval '10 minutes',
		g * interval '1 month 2 days 03:04:05.678',
		('00000000-0000-4000-8000-' || lpad(to_hex(g * 7919), 12, '0'))::uuid,
		format('{"b": %s, "a": [1, 2.0, null]}', g)::json, jsonb_build_object('id', g, 'tags', jsonb_build_array('x', g % 3), 'deep', jsonb_build_object('v', g * 1.50)),
		ARRAY[g, NULL, g % 4], ARRAY['a' || g, 'quo"te', 'com,ma', NULL], (ARRAY['sad', 'ok', 'happy'])[1 + g % 3]::mood, g,
		ROW(g, -g, 'label ' || g % 4)::point3, ARRAY['ok', 'sad']::mood[], ARRAY[ROW(1, g, 'x')::point3, NULL],
		int4range(g, g + 10), numrange(g / 2.0, NULL, '(]'), tstzrange(timestamptz '2026-01-01 00:00+00', timestamptz '2026-01-01 00:00+00' + g * interval '1 hour', '[]'),
		int4multirange(int4range(g, g + 2), int4range(g + 5, g + 7)),
		('10.0.' || g || '.1/16')::inet, ('10.' || g || '.0.0/16')::cidr, ('08:00:2b:01:02:' || lpad(to_hex(g), 2, '0'))::macaddr,
		(g % 16)::bit(4), (g * 5)::bit(9)::varbit, point(g, -g / 2.0), to_tsvector('english', 'the quick foxes jumped over ' || g || ' dogs'),
		(g * 1.25)::numeric::money
	FROM generate_series(1, 30) g;
INSERT INTO kinds (id) VALUES (100);
INSERT INTO kinds (id, n, f4, f8, d, ts, tstz, iv, t, ia, ta, jb, ir, by, c, si, i, bi) VALUES
	(101, 'NaN', 'NaN', 'NaN', 'infinity', 'infinity', 'infinity', '-1 year 3 mons -00:00:01', '', '{}', '{}', 'null', 'empty', '', ROW(NULL, NULL, NULL), 32767, 2147483647, 9223372036854775807),
	(102, 'Infinity', 'Infinity', 'Infinity', '-infinity', '-infinity', '-infinity', '0', ' ', '{{1,2},{3,NULL}}', '{NULL,"NULL","",\\}', '[]', '(,)', '\x00ff', NULL, -32768, -2147483648, -9223372036854775808),
	(103, '-Infinity', '-Infinity', '-0', '4713-01-01 BC', '0044-03-15 12:00:00 BC', '1883-11-18 12:03:58+00', '178000000 years', E'\\', '[0:2]={7,8,9}', '{"{}"}', '{"": {"k": "\u00e4\\"}}', '[5,5]', '\x5c', ROW(1, NULL, '(",")'), 0, 0, 0),
	(104, 1e-40, 1e-37, 1e-307, '5874897-12-31', '294276-12-31 23:59:59.999999', '294276-12-31 23:59:59+00', '-178000000 years', E'a\nb', '{1}', '{a}', '1e3', '(1,3]', '\x0a', ROW(1, 2, ''), 1, 1, 1),
	(105, 123456789012345678901234567890.123456789, 3.4e38, 1.7976931348623157e308, '2000-02-29', '1999-12-31 24:00:00', '2026-11-01 01:30:00-05', '1.000001 s', 'NULL', NULL, NULL, '"text"', NULL, NULL, ROW(2, 1, 'NULL'), 2, 2, 2);

-- Values that are stored out of line, compressed and not.
CREATE TABLE big (id bigint PRIMARY KEY, title text, body text, doc jsonb, blob bytea);
ALTER TABLE big ALTER COLUMN blob SET STORAGE EXTERNAL;
INSERT INTO big
	SELECT g, 'title ' || g, repeat('lorem ipsum ' || g || ' ', g * 700),
		jsonb_build_object('id', g, 'list', (SELECT jsonb_agg(md5((g * 1000 + i)::text)) FROM generate_series(1, g * 200) i)),
		(SELECT string_agg(decode(md5((g * 7000 + i)::text), 'hex'), '' ORDER BY i) FROM generate_series(1, g * 600) i)
	FROM generate_series(1, 10) g;
INSERT INTO big VALUES (11, 'empty', '', '{}', ''), (12, NULL, NULL, NULL, NULL);

DO $$
BEGIN
	EXECUTE 'CREATE TABLE wide (customer_id bigint PRIMARY KEY, ' || (SELECT string_agg('c' || g || ' int', ', ' ORDER BY g) FROM generate_series(1, 120) g) || ')';
	EXECUTE 'INSERT INTO wide SELECT k, ' || (SELECT string_agg(format('NULLIF(k %% %s, 3)', g + 1), ', ' ORDER BY g) FROM generate_series(1, 120) g) || ' FROM generate_series(1, 30) k';
END
$$;

CREATE SEQUENCE tickets_number START 1000;
CREATE TABLE tickets (
	customer_id bigint NOT NULL,
	number bigint NOT NULL DEFAULT nextval('tickets_number'),
	title text NOT NULL DEFAULT 'untitled',
	weight int DEFAULT 2 + 3,
	double_weight int GENERATED ALWAYS AS (weight * 2) STORED,
	opened timestamptz DEFAULT now(),
	token uuid DEFAULT gen_random_uuid(),
	owner name DEFAULT current_user,
	feeling mood DEFAULT 'ok',
	PRIMARY KEY (customer_id, number)
);
INSERT INTO tickets (customer_id, number, title, weight, opened, token)
	SELECT g % 20, g, 'ticket ' || g, g % 6, timestamptz '2026-01-01 00:00+00' + g * interval '1 day', ('00000000-0000-4000-8000-' || lpad(g::text, 12, '0'))::uuid
	FROM generate_series(1, 60) g;

CREATE TABLE devices (device uuid PRIMARY KEY, name text, seen timestamptz);
INSERT INTO devices SELECT md5(g::text)::uuid, 'device ' || g, timestamptz '2026-06-01 12:00+00' - g * interval '1 hour' FROM generate_series(1, 64) g;

CREATE TABLE events (id int, kind text, at timestamptz, payload jsonb);
INSERT INTO events
	SELECT g, (ARRAY['click', 'view', 'buy'])[1 + g % 3], timestamptz '2026-05-01 00:00+00' + g * interval '13 minutes', jsonb_build_object('customer', g % 30, 'n', g)
	FROM generate_series(1, 200) g;

CREATE TABLE config (name text PRIMARY KEY, value text, weight int);
INSERT INTO config VALUES ('a', 'one', 1), ('b', 'two', 2), ('c', NULL, 3), ('d', 'four', NULL);

CREATE TABLE "Odd Schema"."Odd Table" ("Key Col" bigint PRIMARY KEY, "select" int, "ü ""quoted""" text, "UPPER" text DEFAULT 'x');
INSERT INTO "Odd Schema"."Odd Table" SELECT g, g * 2, 'ü' || g, CASE WHEN g % 2 = 0 THEN 'U' END FROM generate_series(1, 25) g;

-- Stays a table of the router.
CREATE TABLE notes (note_id serial PRIMARY KEY, customer_id bigint, body text);
INSERT INTO notes (customer_id, body) SELECT NULLIF(g * 3 % 70, 6), 'note ' || g FROM generate_series(1, 80) g;
CREATE INDEX ON notes (customer_id);

-- Values from sequences of the table's own, handed out by the router.
CREATE TABLE badges (
	badge_id bigint GENERATED ALWAYS AS IDENTITY (START 100 INCREMENT 5),
	customer_id bigint,
	serial_no serial,
	label text,
	PRIMARY KEY (customer_id, badge_id)
);
INSERT INTO badges (customer_id, label) SELECT g % 25, 'badge ' || g FROM generate_series(1, 60) g;

-- Partitioned by time on each shard.
CREATE TABLE metrics (
	customer_id bigint NOT NULL,
	at date NOT NULL,
	value numeric,
	note text DEFAULT 'measured',
	PRIMARY KEY (customer_id, at)
) PARTITION BY RANGE (at);
CREATE TABLE metrics_1 PARTITION OF metrics FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE metrics_2 PARTITION OF metrics FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
CREATE TABLE metrics_rest PARTITION OF metrics DEFAULT;
INSERT INTO metrics SELECT g % 40, date '2026-01-20' + g % 50, g * 1.5 FROM generate_series(1, 400) g ON CONFLICT DO NOTHING;

-- More rows than fit into one message, or one batch.
CREATE TABLE bulk (id bigint PRIMARY KEY, grp int, payload text);
INSERT INTO bulk SELECT g, g % 1000, repeat(md5(g::text), 1 + g % 5) FROM generate_series(1, 15000) g;
