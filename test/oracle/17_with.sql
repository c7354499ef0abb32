-- Common table expressions, recursive ones too.

WITH big AS (SELECT * FROM orders WHERE total > 97) SELECT * FROM big ORDER BY customer_id, order_id;
WITH big AS (SELECT * FROM orders WHERE total > 97) SELECT a.customer_id, b.order_id FROM big a JOIN big b USING (customer_id) ORDER BY 1, 2;
WITH s AS MATERIALIZED (SELECT customer_id, sum(total) AS s FROM orders GROUP BY customer_id) SELECT c.name, s.s FROM customers c JOIN s USING (customer_id) WHERE s.s > 550 ORDER BY s.s, c.name;
WITH s AS NOT MATERIALIZED (SELECT customer_id, sum(total) AS s FROM orders GROUP BY customer_id) SELECT * FROM s WHERE customer_id = 12;
WITH s AS (SELECT customer_id, sum(total) AS s FROM orders GROUP BY customer_id) SELECT * FROM s WHERE s > (SELECT avg(s) * 1.5 FROM s) ORDER BY 1;
WITH a AS (SELECT customer_id FROM customers WHERE region = 'west'), b AS (SELECT * FROM orders JOIN a USING (customer_id)), d AS (SELECT status, count(*) AS n FROM b GROUP BY status) SELECT * FROM d ORDER BY n, status;
WITH a AS (SELECT 5 AS k) SELECT o.* FROM orders o JOIN a ON o.customer_id = a.k ORDER BY order_id;
WITH a(k, n) AS (VALUES (5, 'five'), (6, 'six')) SELECT o.order_id, a.n FROM a JOIN orders o ON o.customer_id = a.k ORDER BY 2, 1;
WITH r AS (SELECT random() AS r) SELECT (SELECT r FROM r) = (SELECT r FROM r) AS same, count(*) FROM customers;
WITH x AS (SELECT customer_id FROM orders WHERE status = 'void') SELECT count(*) FROM customers WHERE customer_id NOT IN (SELECT customer_id FROM x);
WITH unused AS (SELECT 1 / (customer_id - 5) FROM customers) SELECT count(*) FROM customers;
SELECT * FROM (WITH z AS (SELECT customer_id, count(*) AS n FROM items GROUP BY 1) SELECT * FROM z WHERE n > 15) y ORDER BY 1;
SELECT customer_id, (WITH z AS (SELECT total FROM orders o WHERE o.customer_id = c.customer_id) SELECT max(total) - min(total) FROM z) FROM customers c WHERE customer_id BETWEEN 20 AND 26 ORDER BY 1;
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT t.n, c.name FROM t JOIN customers c ON c.customer_id = t.n ORDER BY 1;
WITH RECURSIVE down AS (SELECT node, parent, 0 AS depth FROM tree WHERE node = 2 UNION ALL SELECT t.node, t.parent, d.depth + 1 FROM tree t JOIN down d ON t.parent = d.node) SELECT * FROM down ORDER BY node;
WITH RECURSIVE up AS (SELECT node, parent, label FROM tree WHERE node = 77 UNION ALL SELECT t.node, t.parent, t.label FROM tree t JOIN up ON t.node = up.parent) SELECT * FROM up ORDER BY node;
WITH RECURSIVE path AS (SELECT node, label::text AS p FROM tree WHERE parent IS NULL UNION ALL SELECT t.node, path.p || '/' || t.node FROM tree t, path WHERE t.parent = path.node) SELECT * FROM path WHERE node > 80 ORDER BY node;
WITH RECURSIVE w(a) AS (SELECT 1::bigint UNION SELECT (a * 2) % 7 FROM w JOIN customers c ON c.customer_id = w.a) SELECT * FROM w ORDER BY 1;
WITH RECURSIVE d AS (SELECT node, parent FROM tree WHERE node = 3 UNION ALL SELECT t.node, t.parent FROM tree t JOIN d ON t.parent = d.node) SEARCH DEPTH FIRST BY node SET ord SELECT node FROM d ORDER BY ord;
WITH RECURSIVE d AS (SELECT node, parent FROM tree WHERE node = 3 UNION ALL SELECT t.node, t.parent FROM tree t JOIN d ON t.parent = d.node) SEARCH BREADTH FIRST BY node SET ord SELECT node FROM d ORDER BY ord;
WITH RECURSIVE d(n) AS (SELECT 1::bigint UNION ALL SELECT 1 + n % 5 FROM d JOIN customers c ON c.customer_id = d.n) CYCLE n SET looped USING trail SELECT n, looped FROM d ORDER BY n, looped;
WITH RECURSIVE d AS (SELECT node FROM tree WHERE node = 1 UNION SELECT t.node FROM tree t JOIN d ON t.parent = d.node) SELECT count(*), (SELECT count(*) FROM d WHERE node > 50) FROM d;
WITH RECURSIVE n AS (SELECT note_id, customer_id FROM notes WHERE note_id = 1 UNION SELECT m.note_id, m.customer_id FROM n JOIN orders o ON o.customer_id = n.customer_id JOIN notes m ON m.note_id = o.order_id + n.note_id) SELECT * FROM n ORDER BY 1;
WITH x AS (SELECT * FROM regions), y AS (SELECT * FROM customers WHERE customer_id < 10) SELECT y.customer_id, x.chief FROM y LEFT JOIN x USING (region) ORDER BY 1;
WITH o AS (SELECT o FROM orders o WHERE customer_id = 9) SELECT (o).order_id, (o.o).total FROM o ORDER BY 1;
