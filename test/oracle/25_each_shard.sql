-- Statements that each shard can answer for its own rows, and some that look like it.

SELECT c.customer_id, o.order_id, i.line FROM customers c JOIN orders o USING (customer_id) JOIN items i USING (customer_id, order_id) WHERE i.qty = 9 ORDER BY 1, 2, 3;
SELECT c.customer_id, o.order_id, i.line FROM customers c JOIN orders o USING (customer_id) JOIN items i USING (customer_id, order_id) ORDER BY o.total DESC NULLS LAST, 1, 2, 3 LIMIT 20;
SELECT c.name, v.page FROM customers c JOIN visits v ON v.visitor = c.customer_id ORDER BY v.page DESC, c.customer_id LIMIT 10;
SELECT c.customer_id, s.n FROM customers c LEFT JOIN skew s USING (customer_id) WHERE c.customer_id > 40 AND c.customer_id < 60 ORDER BY 1, 2;
SELECT a.customer_id, a.order_id, b.order_id FROM orders a JOIN orders b ON a.customer_id = b.customer_id AND a.total = b.total AND a.order_id < b.order_id ORDER BY 1, 2, 3;
SELECT count(*) FROM orders a JOIN orders b ON a.customer_id = b.order_id;
SELECT count(*) FROM orders a JOIN orders b ON a.customer_id = b.customer_id + 1;
SELECT count(*) FROM customers c JOIN holes h ON h.id = c.customer_id;
SELECT count(*) FROM customers a, customers b WHERE a.region = b.region AND a.customer_id < b.customer_id;
SELECT a.tenant, a.acct, b.balance FROM accounts a JOIN accounts b USING (tenant, acct) WHERE a.balance > 5000 ORDER BY 1, 2;
SELECT count(*) FROM accounts a JOIN accounts b USING (tenant);
SELECT count(*), sum(a.amount) FROM regional a JOIN regional b ON a.region = b.region AND a.id = b.id + 4;

-- Outer joins with reference tables on each side.

SELECT i.customer_id, i.order_id, i.line, p.name FROM items i LEFT JOIN products p USING (product_id) WHERE i.price > 95 ORDER BY 1, 2, 3;
SELECT p.product_id, count(i.customer_id) FROM products p LEFT JOIN items i ON i.product_id = p.product_id AND i.qty = 5 GROUP BY 1 ORDER BY 1;
SELECT p.product_id, i.customer_id, i.order_id, i.line FROM products p LEFT JOIN items i ON i.product_id = p.product_id AND i.price > 98 ORDER BY 1, 2, 3, 4;
SELECT p.product_id, i.customer_id FROM items i RIGHT JOIN products p ON i.product_id = p.product_id AND i.price > 98 ORDER BY 1, 2;
SELECT p.product_id FROM products p LEFT JOIN items i ON i.product_id = p.product_id AND i.price > 90 WHERE i.customer_id IS NULL ORDER BY 1;
SELECT p.product_id FROM products p WHERE NOT EXISTS (SELECT FROM items i WHERE i.product_id = p.product_id AND i.price > 90) ORDER BY 1;
SELECT p.product_id FROM products p WHERE EXISTS (SELECT FROM items i WHERE i.product_id = p.product_id AND i.price > 97) ORDER BY 1;
SELECT p.product_id FROM products p WHERE p.product_id IN (SELECT product_id FROM items WHERE price > 97) ORDER BY 1;
SELECT p.product_id FROM products p WHERE p.product_id NOT IN (SELECT product_id FROM items WHERE price > 90 AND product_id IS NOT NULL) ORDER BY 1;
SELECT p.product_id FROM products p WHERE p.product_id NOT IN (SELECT product_id FROM items WHERE price > 90) ORDER BY 1;
SELECT p.product_id, i.line FROM products p FULL JOIN items i ON i.product_id = p.product_id AND i.customer_id = 3 WHERE p.product_id < 10 OR i.customer_id < 3 ORDER BY 1, 2;
SELECT count(*), count(p.product_id), count(i.line) FROM products p FULL JOIN items i USING (product_id);
SELECT r.region, c.customer_id FROM regions r LEFT JOIN customers c ON c.region = r.region AND c.customer_id > 190 ORDER BY 1, 2;
SELECT r.region, count(c.customer_id), count(*) FROM regions r LEFT JOIN customers c USING (region) GROUP BY r.region ORDER BY 1;
SELECT c.customer_id, r.tax FROM customers c FULL JOIN regions r ON r.region = c.region WHERE c.customer_id IS NULL OR c.customer_id < 5 ORDER BY 1, 2;
SELECT r.region, x.name FROM regions r LEFT JOIN (customers c JOIN orders o USING (customer_id)) AS x ON x.region = r.region AND x.total > 99 ORDER BY 1, 2;
SELECT c.customer_id, x.name FROM customers c LEFT JOIN (items i JOIN products p USING (product_id)) AS x ON x.customer_id = c.customer_id AND x.price > 95 WHERE c.customer_id < 40 ORDER BY 1, 2;
SELECT r.region, p.product_id, c.customer_id FROM regions r CROSS JOIN products p LEFT JOIN customers c ON c.region = r.region AND c.customer_id = p.product_id WHERE p.product_id < 6 ORDER BY 1, 2;
SELECT r.region, x.order_id FROM regions r CROSS JOIN LATERAL (SELECT o.order_id FROM customers c JOIN orders o USING (customer_id) WHERE c.region = r.region ORDER BY o.total DESC NULLS LAST, o.order_id LIMIT 2) x ORDER BY 1, 2;
SELECT c.customer_id, x.category FROM customers c LEFT JOIN LATERAL (SELECT p.category FROM products p WHERE p.product_id = c.customer_id) x ON true WHERE c.customer_id BETWEEN 48 AND 53 ORDER BY 1;
SELECT c.customer_id, (SELECT p.name FROM products p WHERE p.product_id = c.customer_id) FROM customers c WHERE c.customer_id BETWEEN 48 AND 53 ORDER BY 1;
SELECT p.product_id, (SELECT count(*) FROM items i WHERE i.product_id = p.product_id) FROM products p ORDER BY 1 LIMIT 8;
SELECT p.product_id, (SELECT count(*) FROM items i WHERE i.product_id = p.product_id AND i.customer_id = 17) FROM products p ORDER BY 1 LIMIT 8;
SELECT c.name, k.value FROM customers c LEFT JOIN config k ON k.weight = c.customer_id WHERE c.customer_id < 6 ORDER BY 1;
SELECT k.name, c.customer_id FROM config k LEFT JOIN customers c ON k.weight = c.customer_id ORDER BY 1;
SELECT n.note_id, c.name FROM notes n LEFT JOIN customers c USING (customer_id) WHERE n.note_id < 12 ORDER BY 1;

-- Subqueries and WITH that hold shard by shard, and others.

SELECT customer_id FROM customers c WHERE EXISTS (SELECT FROM orders o WHERE o.customer_id = c.customer_id AND o.total > 99) ORDER BY 1;
SELECT customer_id FROM customers c WHERE NOT EXISTS (SELECT FROM orders o WHERE o.customer_id = c.customer_id) ORDER BY 1;
SELECT customer_id FROM customers WHERE customer_id IN (SELECT customer_id FROM orders WHERE total > 99) ORDER BY 1;
SELECT customer_id FROM customers WHERE customer_id NOT IN (SELECT customer_id FROM orders) ORDER BY 1;
SELECT customer_id FROM customers WHERE customer_id IN (SELECT order_id FROM orders) ORDER BY 1;
SELECT customer_id FROM customers WHERE customer_id NOT IN (SELECT order_id FROM orders) AND customer_id < 20 ORDER BY 1;
SELECT customer_id FROM customers WHERE name NOT IN (SELECT name FROM customers WHERE customer_id % 3 = 0) AND customer_id < 20 ORDER BY 1;
SELECT customer_id, order_id FROM orders o WHERE total = (SELECT max(total) FROM orders x WHERE x.customer_id = o.customer_id) ORDER BY 1, 2 LIMIT 30;
SELECT customer_id, order_id FROM orders o WHERE total = (SELECT max(total) FROM orders) ORDER BY 1, 2;
SELECT customer_id, order_id FROM orders o WHERE total > ALL (SELECT price FROM items i WHERE i.customer_id = o.customer_id) ORDER BY 1, 2 LIMIT 10;
SELECT customer_id, order_id FROM orders o WHERE total >= ALL (SELECT total FROM orders WHERE total IS NOT NULL) ORDER BY 1, 2;
SELECT customer_id, (SELECT count(*) FROM orders o WHERE o.customer_id = c.customer_id) FROM customers c WHERE customer_id > 170 ORDER BY 1;
SELECT customer_id, (SELECT count(*) FROM orders) FROM customers WHERE customer_id > 195 ORDER BY 1;
SELECT customer_id, (SELECT order_id FROM orders o WHERE o.customer_id = c.customer_id ORDER BY total DESC NULLS LAST, order_id LIMIT 1) FROM customers c WHERE customer_id BETWEEN 170 AND 185 ORDER BY 1;
SELECT customer_id, ARRAY(SELECT order_id FROM orders o WHERE o.customer_id = c.customer_id ORDER BY 1) FROM customers c WHERE customer_id BETWEEN 170 AND 185 ORDER BY 1;
SELECT c.customer_id, s.n, s.t FROM customers c JOIN (SELECT customer_id, count(*) AS n, sum(total) AS t FROM orders GROUP BY customer_id) s USING (customer_id) WHERE s.n > 11 ORDER BY 1;
SELECT c.customer_id, s.n FROM customers c LEFT JOIN (SELECT customer_id, count(*) AS n FROM orders WHERE total > 95 GROUP BY customer_id) s USING (customer_id) WHERE c.customer_id < 30 ORDER BY 1;
SELECT c.region, s.n FROM customers c JOIN (SELECT region, count(*) AS n FROM customers GROUP BY region) s USING (region) WHERE c.customer_id < 8 ORDER BY c.customer_id;
SELECT s.customer_id, s.m FROM (SELECT customer_id, max(total) AS m FROM orders GROUP BY customer_id ORDER BY m DESC NULLS LAST, customer_id LIMIT 5) s ORDER BY 1;
SELECT s.customer_id, c.name FROM (SELECT DISTINCT customer_id FROM orders WHERE total > 98) s JOIN customers c USING (customer_id) ORDER BY 1;
SELECT s.status, count(*) FROM (SELECT DISTINCT status, customer_id FROM orders) s GROUP BY 1 ORDER BY 1;
SELECT s.status FROM (SELECT DISTINCT status FROM orders) s ORDER BY 1;
SELECT c.customer_id, l.order_id FROM customers c CROSS JOIN LATERAL (SELECT order_id FROM orders o WHERE o.customer_id = c.customer_id ORDER BY total DESC NULLS LAST, order_id LIMIT 2) l WHERE c.customer_id < 12 ORDER BY 1, 2;
SELECT c.customer_id, l.order_id FROM customers c LEFT JOIN LATERAL (SELECT order_id FROM orders o WHERE o.customer_id = c.customer_id AND o.total > 98 ORDER BY order_id LIMIT 1) l ON true WHERE c.customer_id < 12 ORDER BY 1;
SELECT c.customer_id, l.n FROM customers c CROSS JOIN LATERAL (SELECT count(*) AS n FROM orders o WHERE o.total = c.customer_id) l WHERE c.customer_id < 12 ORDER BY 1;
SELECT l.region, count(*) FROM customers c LEFT JOIN LATERAL (SELECT c.region FROM (SELECT customer_id, count(*) FROM orders WHERE total > 90 GROUP BY 1) s) l ON true WHERE c.customer_id < 40 GROUP BY l.region ORDER BY 1;
SELECT l.k, l.n, count(*) FROM customers c LEFT JOIN LATERAL (SELECT c.customer_id % 3 AS k, s.n FROM (SELECT status, count(*) AS n FROM orders GROUP BY 1) s) l ON true GROUP BY 1, 2 ORDER BY 1, 2;
WITH big AS (SELECT customer_id, sum(total) AS t FROM orders GROUP BY customer_id) SELECT c.customer_id, b.t FROM customers c JOIN big b USING (customer_id) WHERE b.t > 600 ORDER BY 2 DESC, 1;
WITH big AS MATERIALIZED (SELECT customer_id, sum(total) AS t FROM orders GROUP BY customer_id) SELECT c.customer_id, b.t FROM customers c JOIN big b USING (customer_id) WHERE b.t > 600 ORDER BY 2 DESC, 1;
WITH o AS (SELECT * FROM orders WHERE total > 90) SELECT a.customer_id, a.order_id, b.order_id FROM o a JOIN o b ON a.customer_id = b.customer_id AND a.order_id < b.order_id ORDER BY 1, 2, 3;
WITH o AS (SELECT * FROM orders WHERE total > 90) SELECT count(*), (SELECT count(*) FROM o) FROM o WHERE customer_id < 50;
WITH p AS (SELECT product_id FROM products WHERE category = 'category 3') SELECT i.customer_id, i.line FROM items i JOIN p USING (product_id) WHERE i.customer_id < 9 ORDER BY 1, 2;
WITH r AS (SELECT max(total) AS m FROM orders) SELECT o.customer_id, o.order_id FROM orders o JOIN r ON o.total = r.m ORDER BY 1, 2;

-- Groups and windows that contain the key.

SELECT customer_id, count(*), sum(total), array_agg(order_id ORDER BY order_id DESC), string_agg(DISTINCT status, ',' ORDER BY status) FROM orders GROUP BY customer_id ORDER BY 2 DESC, 1 LIMIT 12;
SELECT customer_id, status, count(*) FROM orders GROUP BY customer_id, status HAVING count(*) > 2 ORDER BY 1, 2;
SELECT customer_id + 1, count(*) FROM orders GROUP BY customer_id ORDER BY 2 DESC, 1 LIMIT 5;
SELECT customer_id + 0, count(*) FROM orders GROUP BY customer_id + 0 ORDER BY 2 DESC, 1 LIMIT 5;
SELECT o.customer_id, count(*) FROM customers c JOIN orders o ON o.customer_id = c.customer_id GROUP BY o.customer_id ORDER BY 2 DESC, 1 LIMIT 5;
SELECT c.customer_id, c.name, count(o.order_id) FROM customers c LEFT JOIN orders o USING (customer_id) GROUP BY c.customer_id ORDER BY 3, 1 DESC LIMIT 25;
SELECT o.customer_id, count(*) FROM customers c LEFT JOIN orders o USING (customer_id) GROUP BY o.customer_id ORDER BY 2 DESC, 1 LIMIT 3;
SELECT o.customer_id, count(*) FROM regions r LEFT JOIN (customers c JOIN orders o USING (customer_id)) ON c.region = r.region GROUP BY o.customer_id ORDER BY 2 DESC, 1 NULLS FIRST LIMIT 3;
SELECT tenant, acct, sum(balance) FROM accounts GROUP BY tenant, acct ORDER BY 3 DESC, 1, 2 LIMIT 5;
SELECT tenant, sum(balance) FROM accounts GROUP BY tenant ORDER BY 1;
SELECT region, count(*), sum(amount) FROM regional GROUP BY region ORDER BY 1;
SELECT customer_id, GROUPING(status), status, count(*) FROM orders WHERE customer_id < 4 GROUP BY customer_id, ROLLUP (status) ORDER BY 1, 2, 3;
SELECT customer_id, status, count(*) FROM orders WHERE customer_id < 4 GROUP BY GROUPING SETS ((customer_id), (status), ()) ORDER BY 1, 2, 3;
SELECT DISTINCT customer_id FROM orders WHERE total > 95 ORDER BY 1;
SELECT DISTINCT customer_id, status FROM orders WHERE total > 95 ORDER BY 1, 2;
SELECT DISTINCT status FROM orders ORDER BY 1 DESC;
SELECT DISTINCT status, total > 50 FROM orders ORDER BY 1, 2 LIMIT 7 OFFSET 2;
SELECT DISTINCT ON (customer_id) customer_id, order_id, total FROM orders ORDER BY customer_id, total DESC NULLS LAST, order_id LIMIT 10;
SELECT DISTINCT ON (status) status, customer_id, order_id FROM orders ORDER BY status, total DESC NULLS LAST, customer_id, order_id;
SELECT customer_id, order_id, row_number() OVER (PARTITION BY customer_id ORDER BY total DESC NULLS LAST, order_id) FROM orders WHERE customer_id < 9 ORDER BY 1, 3;
SELECT * FROM (SELECT customer_id, order_id, row_number() OVER (PARTITION BY customer_id ORDER BY total DESC NULLS LAST, order_id) AS r FROM orders) s WHERE r = 1 ORDER BY 1 LIMIT 15;
SELECT customer_id, order_id, sum(total) OVER (PARTITION BY customer_id ORDER BY order_id), count(*) OVER (PARTITION BY customer_id, status) FROM orders WHERE customer_id < 9 ORDER BY 1, 2;
SELECT customer_id, order_id, rank() OVER (ORDER BY total DESC NULLS LAST, customer_id, order_id) FROM orders ORDER BY 3 LIMIT 9;
SELECT customer_id, count(*) OVER (PARTITION BY customer_id), count(*) OVER (PARTITION BY status), count(*) OVER () FROM orders WHERE total > 97 ORDER BY 1, 2, 3;
SELECT status, count(*), sum(count(*)) OVER (ORDER BY status), rank() OVER (ORDER BY count(*) DESC, status) FROM orders GROUP BY status ORDER BY 1;
SELECT customer_id, sum(total), rank() OVER (ORDER BY sum(total) DESC NULLS LAST, customer_id) FROM orders GROUP BY customer_id ORDER BY 3 LIMIT 5;

-- Order, limits.

SELECT customer_id, order_id FROM orders ORDER BY created DESC, 1, 2 LIMIT 20;
SELECT customer_id, order_id FROM orders ORDER BY created DESC, 1, 2 LIMIT 20 OFFSET 35;
SELECT customer_id FROM orders ORDER BY total NULLS FIRST, customer_id, order_id LIMIT 12;
SELECT order_id FROM orders ORDER BY order_id FETCH FIRST 3 ROWS WITH TIES;
SELECT order_id FROM orders ORDER BY order_id OFFSET 1160;
SELECT order_id FROM orders ORDER BY order_id, customer_id LIMIT 0;
SELECT order_id FROM orders ORDER BY order_id, customer_id LIMIT NULL OFFSET 1165;
SELECT order_id FROM orders ORDER BY order_id, customer_id LIMIT (SELECT count(*) FROM config) OFFSET (SELECT 2);
SELECT name FROM customers ORDER BY upper(name) DESC, customer_id LIMIT 5;
SELECT name FROM customers ORDER BY name COLLATE "C" LIMIT 5;
SELECT code FROM codes ORDER BY code LIMIT 10;
SELECT code FROM codes ORDER BY sorted, code COLLATE "C" LIMIT 10;
SELECT code FROM codes ORDER BY label DESC, code COLLATE "C" LIMIT 10 OFFSET 5;
SELECT id, m FROM kinds ORDER BY m DESC NULLS LAST, id LIMIT 8;
SELECT id FROM kinds ORDER BY n, id LIMIT 40;
SELECT id FROM kinds ORDER BY f8 DESC, id LIMIT 40;
SELECT id FROM kinds ORDER BY c, ia, ir, id;
SELECT id FROM kinds ORDER BY iv DESC, tz, ti, id;
SELECT id FROM kinds ORDER BY jb, id;
SELECT id FROM kinds ORDER BY n USING >, id LIMIT 5;
SELECT id FROM kinds ORDER BY b, by, u, ip, net, mac, bits, vbits, id;
-- fails 2201W
SELECT order_id FROM orders LIMIT -1;
-- fails 2201X
SELECT order_id FROM orders OFFSET -1;

-- Set operations.

SELECT customer_id FROM orders WHERE total > 99 UNION ALL SELECT customer_id FROM items WHERE price > 99 ORDER BY 1;
SELECT customer_id FROM orders WHERE total > 99 UNION SELECT customer_id FROM items WHERE price > 99 ORDER BY 1;
SELECT customer_id FROM customers EXCEPT SELECT customer_id FROM orders ORDER BY 1;
SELECT customer_id FROM customers WHERE customer_id < 9 INTERSECT SELECT customer_id FROM orders ORDER BY 1;
SELECT status FROM orders UNION SELECT region FROM customers ORDER BY 1;
SELECT status FROM orders EXCEPT SELECT 'paid' ORDER BY 1;
SELECT order_id FROM orders EXCEPT ALL SELECT line FROM items ORDER BY 1 DESC LIMIT 5;
SELECT customer_id, 'c' AS k FROM customers WHERE customer_id < 3 UNION ALL SELECT product_id, 'p' FROM products WHERE product_id < 3 UNION ALL SELECT note_id, 'n' FROM notes WHERE note_id < 3 ORDER BY 2, 1;
SELECT customer_id FROM customers UNION ALL SELECT product_id FROM products ORDER BY 1 DESC LIMIT 3;
SELECT product_id FROM products UNION SELECT customer_id FROM customers ORDER BY 1 LIMIT 60 OFFSET 45;
(SELECT customer_id FROM orders ORDER BY total DESC NULLS LAST, customer_id, order_id LIMIT 3) UNION ALL (SELECT customer_id FROM orders ORDER BY total, customer_id, order_id LIMIT 3) ORDER BY 1;
SELECT count(*) FROM (SELECT customer_id FROM orders UNION SELECT customer_id FROM skew) s;
SELECT k, count(*) FROM (SELECT status AS k FROM orders UNION ALL SELECT region FROM customers) s GROUP BY k ORDER BY k;

-- Writes over several shards.

-- transaction
UPDATE orders SET total = total + 1 WHERE status = 'paid';
UPDATE orders SET status = 'done' WHERE customer_id IN (1, 2, 3) RETURNING customer_id, order_id, status;
UPDATE orders o SET total = s.n FROM (SELECT customer_id, order_id, count(*) AS n FROM items GROUP BY customer_id, order_id) s WHERE s.customer_id = o.customer_id AND s.order_id = o.order_id AND o.customer_id < 30;
UPDATE items i SET price = i.price + p.product_id FROM products p WHERE p.product_id = i.product_id AND p.category = 'category 2' RETURNING i.customer_id, i.order_id, i.line, i.price, p.name;
UPDATE orders SET total = (SELECT sum(price) FROM items i WHERE i.customer_id = orders.customer_id AND i.order_id = orders.order_id) WHERE order_id = 1;
UPDATE orders SET total = (SELECT max(total) FROM orders) WHERE order_id = 2;
DELETE FROM items WHERE qty = 9 RETURNING *;
DELETE FROM items USING products p WHERE p.product_id = items.product_id AND p.category = 'category 1';
DELETE FROM skew WHERE NOT EXISTS (SELECT FROM orders o WHERE o.customer_id = skew.customer_id);
DELETE FROM skew WHERE n > (SELECT avg(n) FROM skew);
DELETE FROM orders WHERE customer_id > 100 AND order_id > 5;
WITH gone AS (DELETE FROM members WHERE NOT active RETURNING *) SELECT customer_id % 2, count(*), sum(logins) FROM gone GROUP BY 1 ORDER BY 1;

-- with 90, 10 | 50, 3 | NULL, 1 | 0, 0
SELECT customer_id, order_id FROM orders WHERE total > $1 ORDER BY total DESC, customer_id, order_id LIMIT $2;
-- with north | east | NULL
SELECT c.customer_id, count(o.order_id) FROM customers c LEFT JOIN orders o USING (customer_id) WHERE c.region = $1 GROUP BY c.customer_id ORDER BY 2 DESC, 1 LIMIT 4;
-- with paid | new | NULL | none
SELECT DISTINCT customer_id FROM orders WHERE status = $1 AND total > 90 ORDER BY 1;
-- with 5, 20 | 180, 300 | 20, 5
SELECT customer_id, max(total) FROM orders WHERE customer_id BETWEEN $1 AND $2 GROUP BY customer_id ORDER BY 1;

-- What is not asked for is not computed.
SELECT CASE WHEN id > 100000000 THEN (-1)::posint ELSE 1 END FROM kinds;
SELECT count(CASE WHEN total > 1e9 THEN to_date('99/99/2024', 'MM/DD/YYYY') ELSE '2024-01-01' END) FROM orders;
SELECT max(CASE WHEN false THEN 1/0 ELSE order_id END) FROM orders;
SELECT count(*) FROM orders WHERE false AND order_id = 1/0;
SELECT count(*) FROM orders WHERE true OR order_id = 1/0;
SELECT count(*) FROM orders WHERE true OR customer_id = 1/0;
SELECT max(order_id) FROM (SELECT order_id, 1/0 AS x FROM orders) s;
-- with 17 | 0 | 5
SELECT count(*) FROM orders WHERE $1 > 0 AND order_id = 17 / $1::int;

-- transaction
SET LOCAL quote_all_identifiers = on;
SELECT count(*), max(quote_ident(status)) FROM orders;
SELECT quote_ident(name), format('%I', region) FROM customers WHERE customer_id = 17;
