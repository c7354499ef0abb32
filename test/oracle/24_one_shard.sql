-- Whole statements whose rows are on one shard, whatever is in them.

SELECT o.*, i.line, i.qty FROM orders o JOIN items i ON i.customer_id = o.customer_id AND i.order_id = o.order_id WHERE o.customer_id = 17 ORDER BY o.order_id, i.line;
SELECT o.order_id, i.line FROM orders o JOIN items i USING (customer_id, order_id) WHERE i.customer_id = 17 ORDER BY 1, 2;
SELECT o.order_id, c.name FROM customers c, orders o WHERE c.customer_id = 17 AND o.customer_id = 17 ORDER BY 1;
SELECT c.name, o.order_id, i.line, p.name FROM customers c JOIN orders o USING (customer_id) JOIN items i USING (customer_id, order_id) LEFT JOIN products p USING (product_id) WHERE c.customer_id = 23 ORDER BY 2, 3;
SELECT p.category, sum(i.qty * i.price) AS s FROM items i JOIN products p USING (product_id) WHERE i.customer_id = 23 GROUP BY p.category ORDER BY s DESC, 1 LIMIT 3;
SELECT c.customer_id, o.order_id FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id AND o.total > 90 WHERE c.customer_id = 11 ORDER BY 2;
SELECT c.customer_id, o.order_id FROM orders o RIGHT JOIN customers c ON o.customer_id = c.customer_id AND o.customer_id = 11 WHERE c.customer_id = 11 ORDER BY 2;
SELECT c.customer_id, o.order_id FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id WHERE c.customer_id = 190;
SELECT a.order_id, b.order_id FROM (SELECT * FROM orders WHERE customer_id = 11) a FULL JOIN (SELECT * FROM orders WHERE customer_id = 11 AND order_id > 3) b ON a.order_id = b.order_id + 2 ORDER BY 1, 2;
SELECT a.customer_id, b.customer_id, a.order_id, b.order_id FROM orders a JOIN orders b ON a.order_id = b.order_id WHERE a.customer_id = 7 AND b.customer_id = 8 ORDER BY 3;
SELECT a.customer_id, b.customer_id FROM customers a CROSS JOIN customers b WHERE a.customer_id = 7 AND b.customer_id = 7;
SELECT * FROM products p LEFT JOIN items i ON i.product_id = p.product_id AND i.customer_id = 17 WHERE p.product_id < 12 ORDER BY 1, 5, 6;
SELECT p.product_id, count(i.line) FROM items i RIGHT JOIN products p ON i.product_id = p.product_id AND i.customer_id = 17 GROUP BY 1 ORDER BY 1;
SELECT p.product_id, i.line FROM (SELECT * FROM items WHERE customer_id = 17) i FULL JOIN products p USING (product_id) ORDER BY 1, 2;
SELECT count(*) FROM customers WHERE customer_id = 17 AND customer_id = 17;
SELECT count(*), min(name) FROM customers WHERE customer_id = 17 AND customer_id = 18;
SELECT name FROM customers WHERE customer_id IN (17);
SELECT name FROM customers WHERE customer_id = ANY (ARRAY[17]::bigint[]);
SELECT name FROM customers WHERE customer_id BETWEEN 17 AND 17;
SELECT name FROM customers WHERE customer_id = 17 OR (customer_id = 17 AND region = 'south');
SELECT name FROM customers WHERE customer_id = (SELECT 17);
SELECT name FROM customers WHERE customer_id = (SELECT max(product_id) FROM products);
SELECT name FROM customers WHERE customer_id = abs(-17) + length(current_database()) * 0;
SELECT name FROM customers WHERE customer_id = extract(day FROM date '2026-01-17')::int;
SELECT name FROM customers WHERE customer_id = NULLIF(17, 17);
SELECT count(*) FROM customers WHERE customer_id = NULL;
SELECT count(*), sum(customer_id), max(name) FROM customers WHERE customer_id = 17 AND false;

-- Aggregates, windows, DISTINCT, set operations of one key.

SELECT status, count(*), sum(total), avg(total), string_agg(order_id::text, ',' ORDER BY order_id) FROM orders WHERE customer_id = 23 GROUP BY status HAVING count(*) > 1 ORDER BY 2 DESC, 1;
SELECT status, order_id % 2, grouping(status, order_id % 2), count(*) FROM orders WHERE customer_id = 23 GROUP BY CUBE (status, order_id % 2) ORDER BY 1, 2, 3;
SELECT order_id, total, sum(total) OVER (ORDER BY order_id), rank() OVER (ORDER BY status, order_id), lag(total) OVER w, ntile(3) OVER w FROM orders WHERE customer_id = 23 WINDOW w AS (ORDER BY order_id) ORDER BY 1;
SELECT DISTINCT status FROM orders WHERE customer_id = 23 ORDER BY 1;
SELECT DISTINCT ON (status) status, order_id FROM orders WHERE customer_id = 23 ORDER BY status, order_id DESC;
SELECT order_id FROM orders WHERE customer_id = 23 UNION SELECT order_id FROM items WHERE customer_id = 23 ORDER BY 1;
SELECT order_id FROM orders WHERE customer_id = 23 UNION ALL SELECT line FROM items WHERE customer_id = 23 ORDER BY 1 DESC LIMIT 7 OFFSET 2;
SELECT order_id FROM orders WHERE customer_id = 23 EXCEPT SELECT order_id FROM items WHERE customer_id = 23 AND line = 3 ORDER BY 1;
SELECT order_id FROM orders WHERE customer_id = 23 INTERSECT ALL SELECT line FROM items WHERE customer_id = 23 ORDER BY 1;
SELECT order_id FROM orders WHERE customer_id = 23 UNION ALL SELECT order_id FROM orders WHERE customer_id = 24 ORDER BY 1;
SELECT customer_id, order_id FROM orders WHERE customer_id = 23 UNION ALL SELECT product_id, NULL FROM products WHERE product_id < 4 ORDER BY 1, 2;
SELECT order_id FROM orders WHERE customer_id = 23 ORDER BY total DESC NULLS LAST, order_id FETCH FIRST 3 ROWS ONLY;
SELECT order_id % 3 AS m FROM orders WHERE customer_id = 23 ORDER BY m FETCH FIRST 2 ROWS WITH TIES;
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY total), mode() WITHIN GROUP (ORDER BY status) FROM orders WHERE customer_id = 23;
SELECT count(DISTINCT status), count(DISTINCT (status, total)) FROM orders WHERE customer_id = 23;

-- Subqueries and WITH.

SELECT order_id, (SELECT count(*) FROM items i WHERE i.customer_id = o.customer_id AND i.order_id = o.order_id) FROM orders o WHERE customer_id = 17 ORDER BY 1;
SELECT order_id, (SELECT max(line) FROM items WHERE customer_id = 17) FROM orders WHERE customer_id = 17 ORDER BY 1;
SELECT order_id, (SELECT count(*) FROM items) FROM orders WHERE customer_id = 17 ORDER BY 1;
SELECT order_id FROM orders o WHERE customer_id = 17 AND EXISTS (SELECT FROM items i WHERE i.customer_id = o.customer_id AND i.order_id = o.order_id AND i.line = 3) ORDER BY 1;
SELECT order_id FROM orders o WHERE customer_id = 17 AND NOT EXISTS (SELECT FROM items i WHERE i.customer_id = o.customer_id AND i.order_id = o.order_id AND i.line = 3) ORDER BY 1;
SELECT order_id FROM orders o WHERE customer_id = 17 AND NOT EXISTS (SELECT FROM items i WHERE i.customer_id <> o.customer_id AND i.price = o.total) ORDER BY 1;
SELECT order_id FROM orders WHERE customer_id = 17 AND order_id IN (SELECT order_id FROM items WHERE customer_id = 17 AND line = 2) ORDER BY 1;
SELECT order_id FROM orders WHERE customer_id = 17 AND (customer_id, order_id) IN (SELECT customer_id, order_id FROM items WHERE line = 2) ORDER BY 1;
SELECT order_id FROM orders WHERE customer_id = 17 AND order_id NOT IN (SELECT product_id FROM items WHERE customer_id = 17) ORDER BY 1;
SELECT order_id FROM orders WHERE customer_id = 17 AND order_id NOT IN (SELECT product_id FROM items WHERE customer_id = 17 AND product_id IS NOT NULL) ORDER BY 1;
SELECT order_id FROM orders WHERE customer_id = 17 AND total > ALL (SELECT price FROM items WHERE customer_id = 17) ORDER BY 1;
SELECT order_id FROM orders WHERE customer_id = 17 AND total > (SELECT avg(total) FROM orders) ORDER BY 1;
SELECT order_id FROM orders WHERE customer_id = 17 AND total > (SELECT avg(total) FROM orders WHERE customer_id = 17) ORDER BY 1;
SELECT s.order_id, s.n FROM (SELECT customer_id, order_id, count(*) AS n FROM items GROUP BY customer_id, order_id) s WHERE s.customer_id = 17 ORDER BY 1;
SELECT * FROM (SELECT customer_id, row_number() OVER (PARTITION BY customer_id ORDER BY order_id) AS r, order_id FROM orders) s WHERE customer_id = 17 AND r <= 2 ORDER BY 2;
SELECT * FROM (SELECT customer_id, row_number() OVER (ORDER BY customer_id, order_id) AS r FROM orders) s WHERE customer_id = 17 ORDER BY 2;
SELECT * FROM (SELECT DISTINCT customer_id, status FROM orders) s WHERE customer_id = 17 ORDER BY 2;
SELECT * FROM (SELECT customer_id FROM orders ORDER BY customer_id LIMIT 30) s WHERE customer_id = 4;
SELECT * FROM (SELECT customer_id, order_id FROM orders UNION ALL SELECT customer_id, line FROM items) s WHERE customer_id = 17 ORDER BY 2;
SELECT * FROM totals WHERE customer_id = 17;
SELECT * FROM rich WHERE customer_id = 17 ORDER BY order_id;
SELECT * FROM barrier WHERE customer_id = 17;
SELECT l.order_id, l.line FROM orders o CROSS JOIN LATERAL (SELECT i.order_id, i.line FROM items i WHERE i.customer_id = o.customer_id AND i.order_id = o.order_id ORDER BY i.line DESC LIMIT 1) l WHERE o.customer_id = 17 ORDER BY 1;
SELECT o.order_id, g FROM orders o, generate_series(1, o.order_id::int) g WHERE o.customer_id = 17 AND o.order_id < 4 ORDER BY 1, 2;
SELECT o.order_id, v.t FROM orders o JOIN (VALUES ('new', 1), ('paid', 2)) v(s, t) ON v.s = o.status WHERE o.customer_id = 17 ORDER BY 1;
SELECT o.order_id FROM (VALUES (17), (17)) v(k) JOIN orders o ON o.customer_id = v.k ORDER BY 1;
WITH mine AS (SELECT * FROM orders WHERE customer_id = 17) SELECT a.order_id, b.total FROM mine a JOIN mine b USING (order_id) ORDER BY 1;
WITH mine AS MATERIALIZED (SELECT * FROM orders WHERE customer_id = 17) SELECT count(*), sum(total) FROM mine;
WITH mine AS MATERIALIZED (SELECT * FROM orders) SELECT order_id, total FROM mine WHERE customer_id = 17 ORDER BY 1;
WITH a AS (SELECT order_id FROM orders WHERE customer_id = 17), b AS (SELECT order_id FROM a WHERE order_id > 2) SELECT a.order_id, b.order_id FROM a LEFT JOIN b USING (order_id) ORDER BY 1;
WITH RECURSIVE r AS (SELECT order_id FROM orders WHERE customer_id = 17 AND order_id = 1 UNION ALL SELECT o.order_id FROM orders o JOIN r ON o.order_id = r.order_id + 1 WHERE o.customer_id = 17) SELECT * FROM r ORDER BY 1;
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT o.order_id, r.n FROM orders o JOIN r ON r.n = o.order_id WHERE o.customer_id = 17 ORDER BY 1;

-- Composite keys need all of their columns; other kinds of maps; placed tables.

SELECT * FROM accounts WHERE tenant = 'acme' AND acct = 5;
SELECT count(*), sum(balance) FROM accounts WHERE acct = 5;
SELECT count(*), sum(balance) FROM accounts WHERE tenant = 'acme';
SELECT a.acct, b.acct FROM accounts a JOIN accounts b ON a.tenant = b.tenant AND a.acct = b.acct WHERE a.tenant = 'zoo' AND b.acct = 3;
SELECT a.acct, b.acct FROM accounts a JOIN accounts b ON a.tenant = b.tenant WHERE a.tenant = 'zoo' AND a.acct = 3 AND b.acct < 20 ORDER BY 2;
SELECT * FROM accounts WHERE (tenant, acct) = ('acme', 10);
SELECT * FROM accounts WHERE (tenant, acct) IN (('acme', 10), ('acme', 10));
SELECT region, sum(amount) FROM regional WHERE region = 'east' GROUP BY region;
SELECT r.id, g.tax FROM regional r JOIN regions g USING (region) WHERE r.region = 'east' ORDER BY 1 LIMIT 5;
SELECT count(*) FROM regional WHERE region = 'no such';
SELECT id, val FROM lonely WHERE id = 50;
SELECT count(*), max(val) FROM lonely WHERE id < 50;
SELECT count(*) FROM lonely WHERE id > 5000;
SELECT n, note FROM days WHERE day = '2026-01-03' ORDER BY n;
SELECT day, count(*) FROM days WHERE day BETWEEN '2026-01-02' AND '2026-01-05' GROUP BY day ORDER BY day;
SELECT name, seen FROM devices WHERE device = md5('7')::uuid;
SELECT label, rank FROM codes WHERE code = 'straße';
SELECT c.name, c.value, p.category FROM config c LEFT JOIN products p ON p.product_id = c.weight ORDER BY 1;
SELECT a.name, b.name, count(*) OVER () FROM config a JOIN config b ON a.weight = b.weight + 1 ORDER BY 1;
SELECT c.name, o.order_id FROM config c JOIN orders o ON o.order_id = c.weight WHERE o.customer_id = 17 ORDER BY 1, 2;
SELECT count(*) FROM products;
SELECT category, count(*), string_agg(name, ',' ORDER BY product_id) FROM products GROUP BY category ORDER BY 1;
SELECT p.name, r.region FROM products p JOIN regions r ON length(r.region) = p.product_id ORDER BY 1, 2;

-- What only the router has, or can compute.

SELECT o.order_id, n.body FROM orders o JOIN notes n ON n.customer_id = o.customer_id WHERE o.customer_id = 15 ORDER BY 1, 2;
SELECT order_id FROM orders WHERE customer_id = 17 AND order_id IN (SELECT note_id FROM notes) ORDER BY 1;
SELECT order_id, twice(order_id::int) FROM orders WHERE customer_id = 17 ORDER BY 1;
SELECT order_id, noisy(order_id::int) FROM orders WHERE customer_id = 17 ORDER BY 1;
SELECT name FROM customers WHERE customer_id = twice(8);
SELECT name FROM customers WHERE customer_id = noisy(17);
SELECT order_count(17), count(*) FROM orders WHERE customer_id = 17;
SELECT label(c) FROM customers c WHERE customer_id = 17;
SELECT order_id FROM orders WHERE customer_id = 17 AND created < now() + interval '100 years' AND created > CURRENT_DATE - 36500 ORDER BY 1;
SELECT current_user IS NOT NULL, current_database() LIKE '%', count(*) FROM orders WHERE customer_id = 17;
SELECT product(order_id) FROM orders WHERE customer_id = 17;
SELECT order_id FROM orders WHERE customer_id = 17 AND order_id::int ~~~ 3 ORDER BY 1;
SELECT o::text, (o).total FROM orders o WHERE customer_id = 17 ORDER BY order_id;
SELECT row_to_json(o) FROM orders o WHERE customer_id = 17 AND order_id = 2;
SELECT (SELECT x FROM (SELECT o.*) x)::text FROM orders o WHERE customer_id = 17 ORDER BY order_id LIMIT 2;
SELECT m, c, ma, ca[1], ir, mr FROM kinds WHERE id = 7;
SELECT id, m = 'ok' FROM kinds WHERE id = 7 AND m < 'happy';
SELECT 1 AS "a b", 2 AS "A", 3 AS "?column?", customer_id, 'x', NULL FROM customers WHERE customer_id = 17;
SELECT customer_id, customer_id, name AS customer_id FROM customers WHERE customer_id = 17;
SELECT FROM customers WHERE customer_id = 17;
SELECT FROM customers WHERE customer_id = 99999;
SELECT 'a' || $$b$$ || E'\n' || U&'\0041', '\x', name FROM customers WHERE customer_id = 17 AND name <> '\';
-- sqlstate
-- fails 22012
SELECT 1 / (customer_id - 17) FROM customers WHERE customer_id = 17;
-- fails 21000
SELECT (SELECT order_id FROM orders WHERE customer_id = 17) FROM customers WHERE customer_id = 17;
-- fails P0042
SELECT fail_on(order_id::int, 2) FROM orders WHERE customer_id = 17;

-- Locks.

-- transaction
SELECT order_id, total FROM orders WHERE customer_id = 17 ORDER BY 1 FOR UPDATE;
SELECT o.order_id, c.name FROM orders o JOIN customers c USING (customer_id) WHERE o.customer_id = 17 ORDER BY 1 FOR UPDATE OF o;
SELECT o.order_id, p.name FROM items o JOIN products p USING (product_id) WHERE o.customer_id = 17 ORDER BY 1, 2 FOR SHARE OF o;
SELECT order_id FROM orders WHERE customer_id = 17 ORDER BY 1 LIMIT 2 FOR NO KEY UPDATE NOWAIT;
SELECT order_id FROM orders WHERE customer_id = 17 ORDER BY 1 LIMIT 2 FOR UPDATE SKIP LOCKED;
SELECT * FROM (SELECT order_id FROM orders WHERE customer_id = 17 FOR KEY SHARE) s ORDER BY 1;

-- Parameters.

-- with 17 | 18 | 99999 | NULL | 7
SELECT c.name, count(o.order_id), sum(o.total) FROM customers c LEFT JOIN orders o USING (customer_id) WHERE c.customer_id = $1 GROUP BY c.name;
-- with 17, 17 | 17, 18 | NULL, 17 | 18, 18
SELECT count(*) FROM customers c JOIN orders o USING (customer_id) WHERE c.customer_id = $1 AND o.customer_id = $2;
-- with 17 | 18 | NULL
SELECT a.order_id, b.line FROM orders a JOIN items b ON b.customer_id = a.customer_id AND b.order_id = a.order_id WHERE a.customer_id = $1::int ORDER BY 1, 2 LIMIT 3;
-- with 16, 1 | 17, 1 | NULL, 1
SELECT name FROM customers WHERE customer_id = $1::bigint + $2::int;
-- with 17, 2, 1 | 18, 5, 0 | 19, NULL, NULL | 20, 0, 0
SELECT order_id FROM orders WHERE customer_id = $1 ORDER BY order_id LIMIT $2 OFFSET $3;
-- with acme, 10 | zoo, 3 | acme, NULL | Acme, 1
SELECT tenant, acct, balance FROM accounts WHERE tenant = $1 AND acct = $2;
-- with 10, acme | 3, zoo
SELECT balance FROM accounts WHERE acct = $1::int AND tenant = $2::text AND balance > 0;
-- with {17} | {17,18} | {} | NULL | {17,17}
SELECT customer_id, count(*) FROM orders WHERE customer_id = ANY ($1::bigint[]) GROUP BY 1 ORDER BY 1;
-- with 17 | 18
SELECT (SELECT count(*) FROM orders WHERE customer_id = $1), (SELECT count(*) FROM items WHERE customer_id = $1);
-- with 17 | 18 | NULL
WITH mine AS (SELECT * FROM orders WHERE customer_id = $1) SELECT count(*), max(total) FROM mine JOIN items USING (customer_id, order_id);
-- with 2026-01-03 | 2026-01-30 | NULL
SELECT count(*), min(note) FROM days WHERE day = $1;
-- with east | north | NULL | elsewhere
SELECT count(*), sum(amount) FROM regional WHERE region = $1;
-- with 17, paid | 18, new | 19, NULL
SELECT order_id, $2::text FROM orders WHERE customer_id = $1 AND status IS NOT DISTINCT FROM $2 ORDER BY 1;

-- What is not asked for is not computed; what is made of constants fails when it is planned, unless nothing leads there.
SELECT CASE WHEN id > 100000000 THEN (-1)::posint ELSE 1 END FROM kinds WHERE id = 3;
SELECT CASE WHEN total > 1e9 THEN to_date('99/99/2024', 'MM/DD/YYYY') ELSE '2024-01-01' END FROM orders WHERE customer_id = 17;
SELECT CASE WHEN total > 1e9 THEN to_date('01/02/2024', 'MM/DD/YYYY') ELSE '2024-01-01' END FROM orders WHERE customer_id = 17;
SELECT CASE WHEN total > 1e9 THEN current_setting('no.such') END FROM orders WHERE customer_id = 17;
SELECT to_date('99/99/2024', 'MM/DD/YYYY'), total FROM orders WHERE customer_id = 424242;
SELECT CASE WHEN false THEN 1/0 ELSE order_id END FROM orders WHERE customer_id = 17;
SELECT CASE WHEN 0 = 0 THEN order_id ELSE order_id + 100/0 END FROM orders WHERE customer_id = 17;
SELECT coalesce(1, order_id, 1/0) FROM orders WHERE customer_id = 17;
SELECT count(*) FROM orders WHERE false AND customer_id = 1/0;
SELECT count(*) FROM orders WHERE 1 = 1 AND customer_id = 16 + 1;
SELECT order_id FROM (SELECT order_id, 1/0 AS x FROM orders WHERE customer_id = 17) s;
WITH nobody AS (SELECT FROM orders WHERE customer_id = 1/0) SELECT count(*) FROM orders WHERE customer_id = 17;
SELECT CASE WHEN false THEN (SELECT total FROM orders WHERE customer_id = 1/0) END;
-- fails 22012
SELECT 1/0 FROM orders WHERE customer_id = 424242;
-- fails 22012
SELECT CASE WHEN order_id > 1000000 THEN 1/0 ELSE 1 END FROM orders WHERE customer_id = 17;
-- with 17 | 0 | 5
SELECT count(*) FROM orders WHERE $1 > 0 AND customer_id = 17 / $1::int;
