-- Statements with parameters, run often enough for a plan that fits them all.

-- with 17 | 18 | 99999 | NULL | 7
SELECT * FROM orders WHERE customer_id = $1 ORDER BY order_id;
-- with 17, 3 | 18, 1 | 5, 99
SELECT customer_id, order_id, created, status, total FROM orders WHERE customer_id = $1 AND order_id = $2;
-- with 17 | 18
SELECT count(*) FROM orders WHERE customer_id = $1::int;
-- with 17.0 | 17.5
SELECT count(*) FROM orders WHERE customer_id = $1::numeric;
-- with {1,2,3} | {} | NULL | {5,NULL,5}
SELECT customer_id, count(*) FROM orders WHERE customer_id = ANY ($1) GROUP BY 1 ORDER BY 1;
-- with 1, 2, 3 | 4, NULL, 4
SELECT customer_id, order_id FROM orders WHERE customer_id IN ($1, $2, $3) ORDER BY 1, 2;
-- with 10, 12 | 12, 10 | NULL, 5
SELECT customer_id, count(*) FROM orders WHERE customer_id BETWEEN $1 AND $2 GROUP BY 1 ORDER BY 1;
-- with paid, 90 | void, 50 | NULL, 1
SELECT customer_id, order_id FROM orders WHERE status = $1 AND total > $2 ORDER BY 1, 2;
-- with 5, north | 6, south | NULL, east
SELECT * FROM customers WHERE customer_id = $1 OR (region = $2 AND customer_id < 20) ORDER BY 1;
-- with 33 | 34
SELECT p.category, count(*), sum(i.qty * i.price) AS revenue FROM orders o JOIN items i USING (customer_id, order_id) JOIN products p USING (product_id) WHERE o.customer_id = $1 GROUP BY p.category ORDER BY revenue DESC, category LIMIT 10;
-- with 3 | 0 | 10 | NULL
SELECT customer_id FROM customers ORDER BY customer_id LIMIT $1;
-- with 3, 5 | 1, 190 | 0, 0
SELECT customer_id FROM customers ORDER BY customer_id LIMIT $1 OFFSET $2;
-- with 5 | 6
SELECT c.customer_id, c.name, (SELECT sum(total) FROM orders o WHERE o.customer_id = c.customer_id) FROM customers c WHERE c.customer_id = $1;
-- with 5, 7 | 8, 9
SELECT (SELECT count(*) FROM orders WHERE customer_id = $1), (SELECT count(*) FROM orders WHERE customer_id = $2);
-- with 2026-02-01, 2026-03-01 | 2026-06-01, 2026-05-01
SELECT status, count(*), sum(total) FROM orders WHERE created >= $1 AND created < $2 GROUP BY status ORDER BY 1;
-- with x | customer 1%
SELECT count(*) FROM customers WHERE name LIKE $1;
-- with 2, 3 | 10, 4
SELECT $1::int + customer_id AS s, $2::text || name FROM customers WHERE customer_id < 4 ORDER BY 1;
-- with 5, 5 | 5, 6
SELECT * FROM customers WHERE customer_id = $1 AND customer_id = $2;
-- with 5, {5,6} | 5, {7,8} | 6, {} | NULL, {5}
SELECT count(*), sum(total) FROM orders WHERE customer_id = $1 AND customer_id = ANY ($2);
-- with 5 | 7
SELECT DISTINCT status FROM orders WHERE customer_id = $1 AND customer_id IN (5, 6, 7) ORDER BY 1;
-- with acme, 5 | zoo, 3 | büro, 7 | x y, 4 | nix, 1
SELECT * FROM accounts WHERE tenant = $1 AND acct = $2;
-- with acme | Acme
SELECT count(*), sum(balance) FROM accounts WHERE tenant = $1;
-- with a | ä | ' | \ | | 漢字
SELECT rank FROM codes WHERE code = $1;
-- with north | west | mu
SELECT count(*) FROM regional WHERE region = $1;
-- with 2026-01-01 | 2025-12-30 | 2026-01-10
SELECT count(*) FROM days WHERE day = $1;
-- with 2026-01-01, 2026-01-09 | 2025-01-01, 2027-01-01
SELECT count(*), min(n) FROM days WHERE day >= $1 AND day <= $2;
-- with 42 | 1500 | -1
SELECT * FROM lonely WHERE id = $1;
-- with 90, 1200 | 1000, 50
SELECT count(*) FROM lonely WHERE id > $1 AND id < $2;
-- with c4ca4238-a0b9-2382-0dcc-509a6f75849b | 00000000-0000-0000-0000-000000000000
SELECT name FROM devices WHERE device = $1;
-- with happy | sad
SELECT count(*) FROM kinds WHERE m = $1;
-- with {"id": 3} | {}
SELECT id FROM kinds WHERE jb @> $1 ORDER BY id;
-- with {3,4} | {}
SELECT id FROM kinds WHERE ia && $1 ORDER BY id;
-- with NaN | 1 | Infinity
SELECT id FROM kinds WHERE n = $1 OR f8 = $1::float8 ORDER BY id;
-- with (3,-3,"label 3") | (1,2,x)
SELECT id FROM kinds WHERE c = $1::point3 ORDER BY id;
-- with 12 | 1000
SELECT id FROM kinds WHERE ir @> $1::int ORDER BY id;
-- with 2026-10-25 00:30:00+00 | infinity | 2026-10-25 02:30:00
SELECT id FROM kinds WHERE tstz = $1 ORDER BY id;
-- with 1 mon 2 days 03:04:05.678 | 0
SELECT id FROM kinds WHERE iv = $1 ORDER BY id;
-- with 4 | 5
SELECT n.note_id, c.name FROM notes n JOIN customers c USING (customer_id) WHERE c.customer_id = $1 ORDER BY 1;
-- with 2 | 3
WITH RECURSIVE d AS (SELECT node FROM tree WHERE node = $1 UNION ALL SELECT t.node FROM tree t JOIN d ON t.parent = d.node) SELECT count(*) FROM d;
-- with 20 | 21
SELECT customer_id, order_id, sum(total) OVER (ORDER BY order_id) FROM orders WHERE customer_id = $1 ORDER BY order_id;
-- with 5, 3 | 6, 4
SELECT customer_id FROM customers WHERE customer_id = $1 UNION ALL SELECT customer_id FROM orders WHERE customer_id = $2 AND order_id = 1;
-- with t | f
SELECT count(*) FROM holes WHERE d = $1;
-- with 5 | 0
-- fails 22012
SELECT customer_id / $1 FROM customers WHERE customer_id = 10 AND customer_id / $1 >= 0;
-- with 3, 1 | 5, 2
SELECT x.customer_id, x.order_id FROM (SELECT customer_id, order_id, row_number() OVER (PARTITION BY customer_id ORDER BY created, order_id) AS r FROM orders) x WHERE x.customer_id = $1 AND x.r = $2;
-- with 7 | 8
SELECT count(*), max(total) FROM order_rows($1);
-- with 5 | 9
SELECT * FROM totals WHERE customer_id = $1;
-- with b | z
SELECT * FROM config WHERE name = $1;
-- with 17, x | 18, y
SELECT customer_id, $2 AS tag FROM customers WHERE customer_id = $1 OR name = $2;

-- transaction
-- with 2001, a | 2002, b | 2003, NULL | 2004, c | 2005, d | 2006, e | 2007, f
INSERT INTO customers (customer_id, name, region) VALUES ($1, coalesce($2, 'null'), $2) RETURNING *;
-- with a | b
SELECT customer_id FROM customers WHERE region = $1;

-- transaction
-- with 5, 1.5 | 6, -1 | 7, 0.01
UPDATE orders SET total = total + $2 WHERE customer_id = $1 RETURNING order_id, total;
-- with 1.1, 2026-02-01 | 0.9, 2026-01-10
UPDATE orders SET total = total * $1 WHERE created < $2;
-- with void | paid
UPDATE orders SET status = $1 WHERE order_id = 7;
-- with 5, 3 | 6, 2 | 6, 2
DELETE FROM items WHERE customer_id = $1 AND order_id = $2 RETURNING line;
-- with 8 | 9 | 10
DELETE FROM orders WHERE customer_id = $1;
-- with 199, 4000 | 198, 4001 | 197, 4002 | 196, 4003 | 195, 4004 | 194, 4005 | 193, 4006
UPDATE customers SET customer_id = $2 WHERE customer_id = $1 RETURNING *;
-- with 5 | 6
UPDATE customers c SET name = o.status FROM orders o WHERE o.customer_id = c.customer_id AND o.order_id = 1 AND c.customer_id = $1 RETURNING c.name;

-- transaction
-- with {100,101}, {a,b} | {102}, {c} | {}, {} | {103}, {d} | {104}, {e} | {105}, {f} | {106}, {g}
INSERT INTO nothing (customer_id, b) SELECT k, v FROM unnest($1::bigint[], $2::text[]) AS u(k, v) RETURNING *;
-- with 100 | 105
DELETE FROM nothing WHERE customer_id = $1 RETURNING b;

-- transaction
PREPARE p (bigint) AS SELECT order_id, total FROM orders WHERE customer_id = $1 ORDER BY order_id;
EXECUTE p (5);
EXECUTE p (6);
EXECUTE p (7);
EXECUTE p (8);
EXECUTE p (9);
EXECUTE p (10);
EXECUTE p (5);
EXECUTE p (NULL);
UPDATE orders SET total = 0 WHERE customer_id = 5;
-- ordered
EXECUTE p (5);
PREPARE u (bigint, text) AS UPDATE customers SET name = $2 WHERE customer_id = $1 RETURNING *;
EXECUTE u (1, 'x');
EXECUTE u (2, 'y');
EXECUTE u (3, 'z');
EXECUTE u (4, 'x');
EXECUTE u (5, 'y');
EXECUTE u (6, 'z');
EXECUTE u (7, 'z');
SELECT customer_id, name FROM customers WHERE customer_id < 9 ORDER BY 1;
CREATE TEMP TABLE made AS EXECUTE p (6);
SELECT count(*) FROM made;
DEALLOCATE p;
DEALLOCATE u;

-- transaction
SET LOCAL plan_cache_mode = force_generic_plan;
-- with 17 | 18 | 99999 | NULL
SELECT * FROM orders WHERE customer_id = $1 ORDER BY order_id;
-- with {1,2,3} | {} | NULL
SELECT customer_id, count(*) FROM orders WHERE customer_id = ANY ($1) GROUP BY 1 ORDER BY 1;
-- with 17, paid | 18, new
SELECT o.order_id, c.name FROM orders o JOIN customers c USING (customer_id) WHERE c.customer_id = $1 AND o.status = $2 ORDER BY 1;
-- with 90, 1200 | 1000, 50
SELECT count(*) FROM lonely WHERE id > $1 AND id < $2;
-- with 5, x | 6, y
UPDATE customers SET name = $2 WHERE customer_id = $1 RETURNING *;
-- with acme, 5 | zoo, 3
SELECT balance FROM accounts WHERE tenant = $1 AND acct = $2;

-- transaction
SET LOCAL plan_cache_mode = force_custom_plan;
-- with 17 | 18 | 99999 | NULL
SELECT * FROM orders WHERE customer_id = $1 ORDER BY order_id;
-- with 5, x | 6, y
UPDATE customers SET name = $2 WHERE customer_id = $1 RETURNING *;

-- transaction
PREPARE q AS SELECT count(*) FROM skew WHERE n = 3;
EXECUTE q;
INSERT INTO skew (customer_id, n) VALUES (1, 3);
EXECUTE q;
EXECUTE q;
DEALLOCATE ALL;
