-- What PostgreSQL has had since 16, 17 or 18, and what older statements become there.

-- Aggregates that can be split since 16: of strings and arrays, in any order.

SELECT length(string_agg(order_id::text, ',')), array_length(array_agg(total), 1), length(string_agg(status, NULL)) FROM orders;
SELECT status, length(string_agg(customer_id::text, '; ')), array_length(array_agg(customer_id), 1) FROM orders GROUP BY status ORDER BY status;
SELECT region, (SELECT string_agg(x, ',' ORDER BY x COLLATE "C") FROM unnest(a) x) FROM (SELECT region, array_agg(name) AS a FROM customers GROUP BY region) s ORDER BY region;
SELECT v, (SELECT array_agg(x ORDER BY x) FROM unnest(a) x) FROM (SELECT v, array_agg(n) AS a FROM skew GROUP BY v) s ORDER BY v;
SELECT v, array_agg(customer_id) FILTER (WHERE false), string_agg(v, ',') FILTER (WHERE n > 100) FROM skew GROUP BY v ORDER BY v;
SELECT string_agg(b, ','), array_agg(a), array_agg(b) FROM nothing;
SELECT length(string_agg(by, '\x00')), length(string_agg(by, NULL)) FROM kinds;
SELECT (SELECT array_agg(x ORDER BY x) FROM unnest(array_agg(k.m)) x), (SELECT array_agg(x ORDER BY x::text) FROM unnest(array_agg(k.c)) x) FROM kinds k WHERE id < 20;
SELECT b, array_ndims(array_agg(ARRAY[i, si])), array_length(array_agg(ARRAY[i, si]), 1) FROM kinds GROUP BY b ORDER BY b;
SELECT b, (SELECT array_agg(x ORDER BY x) FROM unnest(array_agg(ARRAY[si, NULL])) x) FROM kinds WHERE id < 31 GROUP BY b ORDER BY b;
-- sqlstate
-- fails 2202E
SELECT array_agg(ia) FROM kinds WHERE id < 31 OR id = 102;
-- fails 2202E
SELECT b, array_agg(ARRAY[]::int[]) FROM kinds GROUP BY b;
SELECT length(string_agg(code, '|')), (SELECT string_agg(x, '|' ORDER BY x COLLATE "C") FROM unnest(array_agg(sorted)) x) FROM codes;
SELECT p.category, length(string_agg(i.qty::text, '')), array_length(array_agg(i.price), 1) FROM items i JOIN products p USING (product_id) GROUP BY p.category ORDER BY 1;
SELECT array_length(array_agg(body), 1), sum(length(body)), length(string_agg(body, '')) FROM big;
SELECT grp % 5, length(string_agg(payload, ',')), array_length(array_agg(id), 1) FROM bulk GROUP BY 1 ORDER BY 1;
SELECT day, string_agg(note, ',' ORDER BY n), count(*) FROM days GROUP BY day ORDER BY day;

-- any_value.

-- since 16
SELECT any_value(status) IS NOT NULL, any_value(NULL::int) FROM orders;
-- since 16
SELECT customer_id, any_value(name), count(*) FROM customers JOIN orders USING (customer_id) GROUP BY customer_id ORDER BY 1 LIMIT 9;
-- since 16
SELECT status, any_value(status), any_value(customer_id) BETWEEN 1 AND 180, any_value(total) FILTER (WHERE false) FROM orders GROUP BY status ORDER BY 1;
-- since 16
SELECT region, any_value(region), any_value(customer_id % 5), count(DISTINCT customer_id) FROM customers GROUP BY region ORDER BY 1;
-- since 16
SELECT any_value(a), any_value(b) FROM nothing;
-- since 16
SELECT m, any_value(m), any_value(DISTINCT m), any_value(p) > 0 FROM kinds WHERE id < 31 GROUP BY m ORDER BY m;
-- since 16
SELECT v, any_value(v) OVER (PARTITION BY v) FROM skew WHERE n = 3 ORDER BY v, 2;

-- Other things of 16.

-- since 16
SELECT JSON_ARRAY(customer_id, status, NULL ABSENT ON NULL), JSON_OBJECT('a': order_id, 'b': total) FROM orders WHERE customer_id = 5 ORDER BY order_id;
-- since 16
SELECT JSON_ARRAYAGG(order_id ORDER BY order_id), JSON_OBJECTAGG(order_id: status) IS JSON OBJECT FROM orders WHERE customer_id = 5;
-- since 16
SELECT status, JSON_ARRAYAGG(order_id ORDER BY customer_id, order_id RETURNING jsonb) FROM orders WHERE customer_id < 20 GROUP BY status ORDER BY status;
-- since 16
SELECT id FROM kinds WHERE j IS JSON OBJECT AND NOT t IS JSON SCALAR ORDER BY id;
-- since 16
SELECT code, code IS JSON, code IS JSON VALUE, code IS JSON ARRAY FROM codes ORDER BY code COLLATE "C";
-- since 16
SELECT customer_id, total, 0x1F + order_id, 1_000 * order_id, 0b11 FROM orders WHERE customer_id = 0x05 ORDER BY order_id;
-- since 16
SELECT count(*) FROM (SELECT * FROM orders WHERE total > 50), (SELECT 1 AS one);
-- since 16
SELECT random_normal(5, 0), erf(customer_id::float8 * 0), array_sample(ARRAY[customer_id], 1), array_shuffle(ARRAY[customer_id]) FROM customers WHERE customer_id < 4 ORDER BY 3;
-- since 16
SELECT date_add(tstz, '1 day', 'Europe/Berlin'), date_subtract(tstz, '1 day', 'America/New_York') FROM kinds WHERE id < 5 ORDER BY id;

-- Of 17.

-- since 17
SELECT id, JSON_VALUE(jb, '$.id' RETURNING int), JSON_QUERY(jb, '$.tags' WITH WRAPPER), JSON_EXISTS(jb, '$.deep.v') FROM kinds WHERE id < 8 ORDER BY id;
-- since 17
SELECT JSON_VALUE(jb, '$.tags[1]' RETURNING int) AS tag, count(*), sum(JSON_VALUE(jb, '$.deep.v' RETURNING numeric)) FROM kinds WHERE id < 31 GROUP BY tag ORDER BY tag;
-- since 17
SELECT JSON_VALUE(jb, '$.deep.v' RETURNING numeric DEFAULT -1 ON EMPTY ERROR ON ERROR) FROM kinds ORDER BY id;
-- since 17
SELECT e.kind, t.* FROM events e, JSON_TABLE(e.payload, '$' COLUMNS (customer int PATH '$.customer', n int PATH '$.n', here FOR ORDINALITY)) t WHERE e.id < 20 ORDER BY t.n;
-- since 17
SELECT t.customer, count(*), sum(t.n) FROM events e, JSON_TABLE(e.payload, '$' COLUMNS (customer int PATH '$.customer', n int PATH '$.n')) t GROUP BY t.customer ORDER BY 1;
-- since 17
SELECT k.id, x.tag FROM kinds k LEFT JOIN LATERAL JSON_TABLE(k.jb, '$.tags[*]' COLUMNS (tag text PATH '$')) x ON true WHERE k.id IN (3, 4, 100) ORDER BY 1, 2;
-- since 17
SELECT o.customer_id, o.order_id, t.x FROM orders o JOIN JSON_TABLE('[1, 2, 3]'::jsonb, '$[*]' COLUMNS (x int PATH '$')) t ON t.x = o.order_id WHERE o.customer_id = 30 ORDER BY 2;
-- since 17
SELECT JSON_SCALAR(customer_id), JSON_SERIALIZE(JSON('[1]')) FROM customers WHERE customer_id < 3 ORDER BY customer_id;
-- since 17
SELECT ts AT LOCAL, tstz AT LOCAL FROM kinds WHERE id < 5 ORDER BY id;
-- since 17
SELECT id, iv * 0 + interval 'infinity' FROM kinds WHERE id < 3 ORDER BY id;
-- since 17
SELECT max(i), min(iv), sum(iv), avg(iv) FROM (SELECT iv, iv AS i FROM kinds WHERE id < 31 UNION ALL SELECT 'infinity', '-infinity' FROM kinds WHERE id = 1) s;
-- since 17
SELECT sum(CASE WHEN id = 1 THEN interval 'infinity' ELSE iv END), avg(CASE WHEN id = 1 THEN interval '-infinity' ELSE iv END) FROM kinds WHERE id < 31;
-- since 17
-- fails 22008
SELECT sum(CASE WHEN id % 2 = 1 THEN interval 'infinity' ELSE interval '-infinity' END) FROM kinds WHERE id < 31;
-- since 17
SELECT to_bin(order_id), to_oct(order_id), to_hex(order_id), count(*) FROM orders GROUP BY order_id ORDER BY order_id;
-- since 17
SELECT customer_id, random(5, 5) FROM customers WHERE customer_id < 4 ORDER BY 1;
-- since 17
SELECT customer_id, order_id IN (1, 2) IS NOT NULL, customer_id IS NULL, created IS NOT NULL FROM orders WHERE customer_id IS NOT NULL AND customer_id < 3 ORDER BY 1, 2;
-- since 17
SELECT jb, jb @? '$.deep.v.number()', jsonb_path_query_first(jb, '$.id.string()') FROM kinds WHERE id < 4 ORDER BY id;

-- Groups, which are a relation of the query since 18.

SELECT status, count(*) FROM orders GROUP BY ROLLUP (status) HAVING status IS NULL;
SELECT status, count(*) FROM orders GROUP BY ROLLUP (status) HAVING status IS NOT NULL ORDER BY 1;
SELECT status, customer_id % 3, count(*) FROM orders GROUP BY CUBE (status, customer_id % 3) HAVING customer_id % 3 IS NULL OR status = 'paid' ORDER BY 1, 2;
SELECT coalesce(status, 'all'), count(*), sum(total) FROM orders GROUP BY ROLLUP (status) ORDER BY status;
SELECT region, count(*) FROM customers GROUP BY GROUPING SETS ((region), ()) HAVING region IS NOT DISTINCT FROM NULL ORDER BY 2;
SELECT customer_id, count(*) FROM orders GROUP BY ROLLUP (customer_id) HAVING customer_id IS NULL OR customer_id = 5 ORDER BY 1;
SELECT customer_id, count(*) FROM orders WHERE customer_id = 5 GROUP BY ROLLUP (customer_id) HAVING customer_id IS NULL;
-- Before 18 PostgreSQL takes a column for constant that is NULL in some of the groups, and does not sort by it.
-- since 18
SELECT customer_id, count(*) FROM orders WHERE customer_id = 5 GROUP BY ROLLUP (customer_id, order_id) HAVING order_id IS NULL ORDER BY 1, 2;
SELECT customer_id IS NULL, order_id IS NULL, status, count(*) FROM orders GROUP BY GROUPING SETS ((customer_id, order_id), (status), ()) HAVING count(*) > 100 ORDER BY 1, 2, 3, 4;
SELECT 1 AS one, status, count(*) FROM orders GROUP BY one, status ORDER BY 2;
SELECT 'x' AS x, count(*) FROM orders GROUP BY 1;
SELECT 1 AS one, count(*) FROM nothing GROUP BY one;
SELECT x, count(*) FROM (SELECT 1 AS x, status FROM orders) s GROUP BY ROLLUP (x) ORDER BY x;
SELECT x, status, count(*) FROM (SELECT 1 AS x, status FROM orders) s GROUP BY GROUPING SETS ((x), (status), ()) ORDER BY 1, 2;
SELECT status || '!', length(status), upper(status) || count(*) FROM orders GROUP BY status ORDER BY status;
SELECT lower(status) || lower(status), count(*) FROM orders GROUP BY lower(status) ORDER BY lower(status);
SELECT status, (SELECT count(*) FROM customers c WHERE c.name > o.status) FROM orders o GROUP BY status ORDER BY 1;
SELECT status, (SELECT max(p.name) FROM products p WHERE p.category > o.status OR p.product_id = 3) FROM orders o GROUP BY status ORDER BY 1;
SELECT o.status, (SELECT count(*) FROM orders x WHERE x.status = o.status AND x.total > max(o.total) - 10) FROM orders o GROUP BY o.status ORDER BY 1;
SELECT (SELECT c.region) AS r, count(*) FROM customers c GROUP BY r ORDER BY r;
SELECT (SELECT r.chief FROM regions r WHERE r.region = c.region) AS chief, count(*) FROM customers c GROUP BY chief ORDER BY chief;
SELECT (SELECT count(*) FROM orders o WHERE o.customer_id = c.customer_id) AS orders, count(*), min(c.customer_id) FROM customers c GROUP BY orders ORDER BY orders;
SELECT customer_id, (SELECT count(*) FROM orders o WHERE o.customer_id = c.customer_id) AS n FROM customers c GROUP BY customer_id, n HAVING (SELECT count(*) FROM orders o WHERE o.customer_id = c.customer_id) > 10 ORDER BY 1;
SELECT customer_id, customer_id + 1, count(*) FROM orders GROUP BY customer_id HAVING customer_id BETWEEN 3 AND 6 ORDER BY 1;
SELECT c.customer_id, c.name, c.region, count(*) FROM customers c JOIN orders o USING (customer_id) GROUP BY c.customer_id ORDER BY 4 DESC, 1 LIMIT 5;
SELECT customer_id, name, count(*) FROM customers JOIN orders USING (customer_id) GROUP BY customer_id, customers.customer_id ORDER BY 1 LIMIT 5;
SELECT customer_id, count(*) FROM customers FULL JOIN orders USING (customer_id) GROUP BY customer_id ORDER BY 2 DESC, 1 LIMIT 5;
SELECT customer_id % 2, count(o.order_id) FROM customers c LEFT JOIN orders o USING (customer_id) GROUP BY 1 ORDER BY 1;
SELECT o.status, count(*), count(o.status) FROM customers c LEFT JOIN orders o USING (customer_id) GROUP BY o.status HAVING o.status IS NULL OR count(*) > 1 ORDER BY 1;
SELECT o.status, c.region, count(*) FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id AND o.total > 90 GROUP BY ROLLUP (o.status, c.region) HAVING o.status IS NULL ORDER BY 1, 2, 3;
SELECT status, customer_id % 2, count(*) FROM orders GROUP BY DISTINCT ROLLUP (status, customer_id % 2), ROLLUP (status) ORDER BY 1, 2, 3;
SELECT status, customer_id % 2, count(*) FROM orders GROUP BY ALL ROLLUP (status), CUBE (status, customer_id % 2) ORDER BY 1, 2, 3;
SELECT DISTINCT status, count(*) OVER (PARTITION BY status) FROM orders GROUP BY status, customer_id % 2 ORDER BY 1;
SELECT status, rank() OVER (ORDER BY status DESC), lag(status) OVER (ORDER BY status) FROM orders GROUP BY status ORDER BY status;
SELECT DISTINCT ON (status) status, customer_id % 4, count(*) FROM orders GROUP BY 1, 2 ORDER BY 1, 3 DESC, 2;
SELECT (o).status, count(*) FROM orders o GROUP BY (o).status ORDER BY 1;
SELECT s.c, count(*) FROM (SELECT c FROM kinds WHERE id < 31) s GROUP BY s.c HAVING (s.c).x > 25 ORDER BY 1;
SELECT (c).label, count(*) FROM kinds WHERE id < 31 GROUP BY (c).label ORDER BY 1;
SELECT ROW(status, 1), count(*) FROM orders GROUP BY ROW(status, 1) ORDER BY 1;
SELECT status FROM orders GROUP BY status UNION SELECT region FROM customers GROUP BY region ORDER BY 1;
WITH t AS (SELECT status, count(*) AS n FROM orders GROUP BY status) SELECT t.status, t.n, (SELECT sum(n) FROM t) FROM t ORDER BY 1;
WITH t AS (SELECT customer_id AS c, count(*) AS n FROM orders GROUP BY customer_id) SELECT n, count(*), max(c) FROM t GROUP BY n ORDER BY n;
SELECT customer_id, n FROM (SELECT customer_id, count(*) AS n FROM orders GROUP BY customer_id) s WHERE customer_id = 9;
SELECT customer_id, n FROM (SELECT customer_id, count(*) AS n FROM orders GROUP BY ROLLUP (customer_id)) s WHERE customer_id IS NULL;
WITH t AS (SELECT region FROM regions) SELECT (SELECT count(*) FROM t WHERE t.region > o.status) AS n, count(*) FROM orders o GROUP BY n ORDER BY n;
WITH t AS (SELECT region FROM regions) SELECT o.status, count(*) FROM orders o GROUP BY o.status, (SELECT max(region) FROM t) ORDER BY 1;
SELECT noisy(order_id::int), count(*) FROM orders GROUP BY noisy(order_id::int) ORDER BY 1;
SELECT twice(order_id::int) + 1, twice(order_id::int), count(*) FROM orders GROUP BY twice(order_id::int) HAVING twice(order_id::int) > 5 ORDER BY 1;
SELECT grouping(status), grouping(status, customer_id % 2), count(*) FROM orders GROUP BY ROLLUP (status, customer_id % 2) HAVING grouping(status) = 1 OR status > 'p' ORDER BY 1, 2, 3;
SELECT status, generate_series(1, 2), count(*) FROM orders GROUP BY status ORDER BY 1, 2;
SELECT generate_series(1, length(status)) AS g, count(*) FROM orders GROUP BY g ORDER BY g;
SELECT max(n), status FROM (SELECT status, count(*) AS n FROM orders GROUP BY status, customer_id) s GROUP BY status ORDER BY 2;
-- fails 42803
SELECT status, total FROM orders GROUP BY status;
-- with 2 | 3 | NULL
SELECT customer_id % $1::int AS m, count(*) FROM orders GROUP BY ROLLUP (customer_id % $1::int) HAVING customer_id % $1::int IS NULL OR count(*) > 100 ORDER BY 1, 2;
-- with x | y | NULL
SELECT $1::text AS t, status, count(*) FROM orders GROUP BY t, status ORDER BY 2;
-- since 18
-- with 5, 1 | 7, 2 | NULL, 1
SELECT customer_id, order_id % $2::int, count(*) FROM orders WHERE customer_id = $1 GROUP BY GROUPING SETS ((customer_id), (order_id % $2::int)) ORDER BY 1, 2;

-- Views, which are subqueries of a kind of their own since 16.

SELECT v.customer_id, count(*) FROM rich v GROUP BY v.customer_id HAVING count(*) > 6 ORDER BY 1;
SELECT v, v.total FROM rich v WHERE customer_id = 11 ORDER BY v.order_id;
SELECT count(*), sum(t.orders), max(t.total) FROM totals t JOIN rich r USING (customer_id);
SELECT t.* FROM totals t WHERE customer_id IN (4, 199) ORDER BY 1;
SELECT b.region, count(*) FROM barrier b JOIN orders o USING (customer_id) GROUP BY b.region ORDER BY 1;
SELECT (SELECT v.total FROM rich v WHERE v.customer_id = c.customer_id ORDER BY v.order_id LIMIT 1) FROM customers c WHERE c.customer_id < 9 ORDER BY c.customer_id;

-- Of 18.

-- since 18
SELECT array_sort(ARRAY[order_id, -order_id, 3]), array_reverse(ARRAY[order_id, 2]) FROM orders WHERE customer_id = 11 ORDER BY order_id;
-- since 18
SELECT casefold(code) = casefold(upper(code)), count(*) FROM codes GROUP BY 1 ORDER BY 1;
-- since 18
SELECT min(ia), max(ia), min(by), max(by) FROM kinds WHERE id < 31;
-- since 18
SELECT b, max(by), min(ta), max(c), min(c) FROM kinds WHERE id < 31 GROUP BY b ORDER BY b;
-- since 18
SELECT max(ROW(total, customer_id)), min(ROW(status, order_id)) FROM orders WHERE total IS NOT NULL;
-- since 18
SELECT status, max(ROW(total, customer_id)::text), max(ROW(total, customer_id)) FROM orders WHERE total IS NOT NULL GROUP BY status ORDER BY 1;
-- since 18
SELECT crc32(by), crc32c(by), reverse(by), by::bigint FROM kinds WHERE id < 10 ORDER BY id;
-- since 18
SELECT uuid_extract_version(u), count(*) FROM kinds GROUP BY 1 ORDER BY 1;
-- since 18
SELECT gamma(order_id::float8), lgamma(order_id::float8) FROM orders WHERE customer_id = 11 ORDER BY order_id;
-- since 18
SELECT jsonb_strip_nulls(jb, true), json_strip_nulls(j, true)::text FROM kinds WHERE id < 4 ORDER BY id;
-- since 18
SELECT customer_id FROM orders o WHERE EXISTS (SELECT FROM items i WHERE i.customer_id = o.customer_id AND i.order_id = o.order_id AND o.customer_id IS NOT NULL) AND o.customer_id = 8 ORDER BY order_id;
-- since 18
SELECT a.customer_id FROM customers a JOIN customers b ON a.customer_id = b.customer_id WHERE a.customer_id < 5 AND b.region IS NOT NULL ORDER BY 1;
-- since 18
SELECT customer_id, order_id FROM orders WHERE customer_id = 3 OR customer_id = 5 OR customer_id = 8 AND order_id = 1 ORDER BY 1, 2;
-- since 18
SELECT customer_id, name FROM customers WHERE customer_id IN (VALUES (1), (5), (9)) ORDER BY 1;
-- since 18
SELECT count(*) FROM orders WHERE customer_id = ANY (SELECT x FROM (VALUES (3::bigint), (4), (NULL)) v (x)) GROUP BY customer_id ORDER BY 1;
