-- Aggregates over groups that lie on several shards.

SELECT count(*) FROM orders;
SELECT count(total), count(*) - count(total), sum(total), sum(total) / count(total), avg(total), min(total), max(total) FROM orders;
SELECT sum(order_id), sum(line), avg(line), sum(price), avg(qty), sum(qty::smallint), avg(order_id) FROM orders JOIN items USING (customer_id, order_id);
SELECT sum(f4), sum(f8 * 0 + 0.5), avg(f4), avg(f4::float8), sum(i), sum(si), sum(bi), sum(n2), avg(n2) FROM kinds WHERE id BETWEEN 2 AND 20 AND id % 2 = 0;
SELECT sum(iv), avg(iv), min(iv), max(iv), sum(ti), avg(ti) FROM kinds WHERE id < 31;
SELECT sum(money), min(money) FROM tickets, (VALUES ('1.5'::money)) v(money);
SELECT min(t), max(vc), min(ch), max(d), min(ti), max(tz), min(ts), max(tstz), min(ip), max(net), min(m), max(m) FROM kinds;
SELECT min(ia), max(ia), min(ta) FROM kinds WHERE id < 31;
SELECT max(code), min(code), max(label), min(sorted), count(code) FROM codes;
SELECT bool_and(b), bool_or(b), every(b) FROM kinds;
SELECT bool_and(d), bool_or(d) FROM holes WHERE d IS NULL;
SELECT bit_and(i), bit_or(i), bit_xor(i), bit_and(si), bit_or(bi), bit_and(bits), bit_or(bits) FROM kinds WHERE id < 31;
SELECT variance(qty), var_pop(qty), var_samp(qty), stddev(qty), stddev_pop(qty), stddev_samp(qty) FROM items;
SELECT variance(price), var_pop(price), var_samp(price), stddev(price), stddev_pop(price), stddev_samp(price) FROM items;
SELECT stddev(line), var_pop(order_id), var_samp(customer_id) FROM items;
SELECT variance(qty), stddev_samp(qty), var_pop(qty), stddev_pop(qty) FROM items WHERE customer_id = 1 AND order_id = 1 AND line = 1;
SELECT variance(qty), stddev_samp(qty), var_pop(qty), avg(qty), sum(qty) FROM items WHERE qty > 1000;
SELECT round(corr(qty, line)::numeric, 9), round(covar_pop(qty, line)::numeric, 9), round(covar_samp(qty, line)::numeric, 9) FROM items;
SELECT regr_count(qty, line), round(regr_avgx(qty, line)::numeric, 9), round(regr_avgy(qty, line)::numeric, 9), round(regr_sxx(qty, line)::numeric, 6), round(regr_syy(qty, line)::numeric, 6), round(regr_sxy(qty, line)::numeric, 6) FROM items;
SELECT round(regr_slope(qty, line)::numeric, 9), round(regr_intercept(qty, line)::numeric, 9), round(regr_r2(qty, line)::numeric, 9) FROM items;
SELECT round(stddev(seconds)::numeric, 6), round(variance(seconds::float8)::numeric, 6), round(var_pop(seconds)::numeric, 6) FROM visits;
SELECT sum(n), avg(n), max(n), min(n), count(n) FROM kinds WHERE id > 100;
SELECT max(f8), min(f8), max(f4), min(f4), max(n), min(n) FROM kinds WHERE id > 100;
SELECT string_agg(name, ',' ORDER BY name), array_agg(customer_id ORDER BY customer_id), json_agg(region ORDER BY customer_id), xmlagg(xmlelement(name x, customer_id) ORDER BY customer_id)::text FROM customers WHERE customer_id < 9;
SELECT string_agg(v, ';' ORDER BY v, n) FROM skew;
SELECT array_agg(ia ORDER BY id) FROM kinds WHERE id IN (1, 2, 3);
SELECT range_agg(ir), range_intersect_agg(ir) FROM kinds WHERE id BETWEEN 3 AND 9;
SELECT percentile_cont(0.3) WITHIN GROUP (ORDER BY total), percentile_disc(ARRAY[0.1, 0.5]) WITHIN GROUP (ORDER BY total), mode() WITHIN GROUP (ORDER BY status DESC) FROM orders;
SELECT rank(3) WITHIN GROUP (ORDER BY qty), percent_rank(3) WITHIN GROUP (ORDER BY qty) FROM items;
SELECT count(*), sum(a), avg(a), bool_and(true), min(b), string_agg(b, ',') FROM nothing;
SELECT 1 FROM nothing HAVING count(*) = 0;
SELECT count(*) FROM nothing GROUP BY a;
SELECT count(*) FROM orders HAVING count(*) < 0;
SELECT count(*), 5, 'x', now() IS NOT NULL FROM orders;
SELECT FROM orders GROUP BY status;
SELECT product(qty) FROM items WHERE customer_id < 4;
SELECT status, product(order_id) FROM orders WHERE customer_id < 3 GROUP BY status ORDER BY 1;

-- Groups.

SELECT status, count(*), count(total), sum(total), avg(total), min(total), max(total), stddev(total), variance(total) FROM orders GROUP BY status ORDER BY status;
SELECT region, count(*) FROM customers GROUP BY region ORDER BY count(*) DESC, region;
SELECT region, count(*) FROM customers GROUP BY region ORDER BY max(customer_id) % 7, region LIMIT 3;
SELECT region, count(*) AS n, count(*) * 2 + 1, round(avg(customer_id), 3), sum(customer_id) / count(*), CASE WHEN count(*) > 40 THEN 'many' ELSE 'few' END FROM customers GROUP BY region ORDER BY n, region;
SELECT coalesce(region, 'none') AS r, count(*) FROM customers GROUP BY coalesce(region, 'none') ORDER BY 1;
SELECT upper(left(region, 2)) || count(*) FROM customers GROUP BY left(region, 2) ORDER BY 1;
SELECT date_trunc('month', created) AS m, count(*), sum(total) FROM orders GROUP BY m ORDER BY m;
SELECT date_trunc('quarter', created)::date, status, count(*) FROM orders GROUP BY 1, 2 HAVING count(*) > 60 ORDER BY 1, 2;
SELECT extract(dow FROM created), count(*) FROM orders GROUP BY 1 ORDER BY 1;
SELECT created::date, count(*) FROM orders GROUP BY created::date HAVING count(*) > 8 ORDER BY 2 DESC, 1;
SELECT customer_id % 5 AS k, sum(order_id) FROM orders GROUP BY customer_id % 5 ORDER BY k;
SELECT total > 50 AS rich, count(*) FROM orders GROUP BY total > 50 ORDER BY 1;
SELECT status, sum(total) FROM orders GROUP BY status HAVING sum(total) > 11000 ORDER BY sum(total);
SELECT status FROM orders GROUP BY status HAVING avg(total) > 49 AND count(*) > 200 ORDER BY 1;
SELECT status FROM orders GROUP BY status HAVING bool_or(total IS NULL) AND status <> 'void' ORDER BY max(order_id), status;
SELECT status, count(*) FROM orders GROUP BY status HAVING count(*) > (SELECT count(*) / 5 FROM orders) ORDER BY 1;
SELECT status, count(*) FROM orders WHERE total > (SELECT avg(total) FROM orders) GROUP BY status ORDER BY 1;
SELECT count(*) FROM (SELECT status FROM orders GROUP BY status) s;
SELECT avg(n), max(n) FROM (SELECT count(*) AS n FROM orders GROUP BY customer_id) s;
SELECT avg(n), max(n) FROM (SELECT count(*) AS n FROM orders GROUP BY status) s;
SELECT n, count(*) FROM (SELECT customer_id, count(*) AS n FROM orders GROUP BY customer_id) s GROUP BY n ORDER BY n;
SELECT v, count(*), sum(n) FROM skew GROUP BY v ORDER BY v NULLS FIRST;
SELECT n, v, count(*) FROM skew GROUP BY n, v HAVING count(*) > 3 ORDER BY 3 DESC, 1, 2;
SELECT m, count(*), min(id) FROM kinds GROUP BY m ORDER BY m;
SELECT m, max(p), min(c::text), count(ia) FROM kinds WHERE id < 31 GROUP BY m ORDER BY m;
SELECT c, count(*) FROM kinds GROUP BY c ORDER BY c;
SELECT ch, vc IS NULL, count(*) FROM kinds GROUP BY ch, vc IS NULL ORDER BY 1, 2;
SELECT sorted, count(*) FROM codes GROUP BY sorted ORDER BY sorted COLLATE "C" LIMIT 5;
SELECT lower(code), count(*) FROM codes GROUP BY lower(code) HAVING count(*) > 1 ORDER BY lower(code) COLLATE "C";
SELECT kind, count(*), min(at), max(payload ->> 'n') FROM events GROUP BY kind ORDER BY kind;
SELECT payload -> 'customer' AS c, count(*) FROM events GROUP BY payload -> 'customer' ORDER BY 2 DESC, 1 LIMIT 4;
SELECT note, sum(value), count(*) FROM metrics GROUP BY note;
SELECT date_trunc('week', at), sum(value) FROM metrics GROUP BY 1 ORDER BY 1;

-- Over joins.

SELECT p.category, count(*), sum(i.qty), sum(i.qty * i.price) AS s, avg(i.price) FROM items i JOIN products p USING (product_id) GROUP BY p.category ORDER BY s DESC;
SELECT p.category, c.region, count(*), max(o.total) FROM customers c JOIN orders o USING (customer_id) JOIN items i USING (customer_id, order_id) JOIN products p USING (product_id) GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 12;
SELECT c.region, count(DISTINCT c.customer_id), count(o.order_id), sum(o.total) FROM customers c LEFT JOIN orders o USING (customer_id) GROUP BY c.region ORDER BY 1;
SELECT r.chief, count(c.customer_id), sum(c.customer_id) FROM customers c LEFT JOIN regions r USING (region) GROUP BY r.chief ORDER BY 1;
SELECT r.chief, count(c.customer_id), sum(c.customer_id) FROM regions r LEFT JOIN customers c USING (region) GROUP BY r.chief ORDER BY 1;
SELECT r.chief, count(*) FROM regions r FULL JOIN customers c USING (region) GROUP BY r.chief ORDER BY 1;
SELECT h.c, count(*), sum(o.total) FROM holes h JOIN orders o ON o.order_id = h.id GROUP BY h.c ORDER BY 1;
SELECT n.body LIKE '%1%', count(*), sum(o.total) FROM notes n JOIN orders o USING (customer_id) GROUP BY 1 ORDER BY 1;
SELECT status, count(*) FROM orders o WHERE EXISTS (SELECT FROM items i WHERE i.customer_id = o.customer_id AND i.order_id = o.order_id AND i.qty > 7) GROUP BY status ORDER BY 1;
SELECT status, count(*) FROM orders o WHERE NOT EXISTS (SELECT FROM items i WHERE i.price = o.total) GROUP BY status ORDER BY 1;
SELECT k.name, count(o.order_id), max(o.total) FROM config k LEFT JOIN orders o ON o.order_id = k.weight GROUP BY k.name ORDER BY 1;

-- FILTER, DISTINCT, ORDER BY within.

SELECT count(*) FILTER (WHERE total > 50), count(total) FILTER (WHERE status = 'paid'), sum(total) FILTER (WHERE customer_id % 2 = 0), avg(order_id) FILTER (WHERE false), max(total) FILTER (WHERE total < 10) FROM orders;
SELECT status, count(*) FILTER (WHERE total > 50), sum(total) FILTER (WHERE order_id = 1), bool_or(total > 99) FILTER (WHERE order_id > 3), stddev(total) FILTER (WHERE total > 10) FROM orders GROUP BY status ORDER BY 1;
SELECT status, string_agg(order_id::text, ',' ORDER BY customer_id, order_id) FILTER (WHERE total > 98) FROM orders GROUP BY status ORDER BY 1;
SELECT count(*) FILTER (WHERE total > (SELECT avg(total) FROM orders)) FROM orders;
SELECT count(*) FILTER (WHERE twice(order_id::int) > 4), sum(twice(order_id::int)) FROM orders;
SELECT count(*) FILTER (WHERE noisy(order_id::int) > 4) FROM orders;
SELECT count(DISTINCT customer_id), count(DISTINCT status), count(DISTINCT total), count(DISTINCT created::date), count(DISTINCT NULL::int) FROM orders;
SELECT status, count(DISTINCT customer_id), count(DISTINCT order_id), count(*) FROM orders GROUP BY status ORDER BY 1;
SELECT count(DISTINCT (customer_id, status)), count(DISTINCT (status, order_id)) FROM orders;
SELECT sum(DISTINCT order_id), avg(DISTINCT order_id), sum(DISTINCT total), min(DISTINCT total), count(DISTINCT total) FILTER (WHERE order_id < 3) FROM orders;
SELECT status, sum(DISTINCT order_id) FILTER (WHERE total > 50), string_agg(DISTINCT (order_id % 3)::text, '' ORDER BY (order_id % 3)::text) FROM orders GROUP BY status ORDER BY 1;
SELECT customer_id, count(DISTINCT order_id), count(DISTINCT status) FROM orders GROUP BY customer_id ORDER BY 3 DESC, 1 LIMIT 5;
SELECT count(DISTINCT lower(code)), count(DISTINCT sorted), count(DISTINCT code COLLATE "C") FROM codes;
SELECT count(DISTINCT m), count(DISTINCT c), count(DISTINCT ia), count(DISTINCT jb), count(DISTINCT n) FROM kinds;
SELECT count(DISTINCT v), count(v), count(DISTINCT n) FROM skew;
SELECT v, count(DISTINCT customer_id), count(DISTINCT n) FROM skew GROUP BY v HAVING count(DISTINCT customer_id) > 2 ORDER BY 1;
-- Aggregates of one argument: those that PostgreSQL lets share a state, and those that only look like it.
SELECT count(customer_id), count(DISTINCT customer_id) FROM orders;
SELECT count(DISTINCT customer_id), count(customer_id) FROM orders;
SELECT count(DISTINCT customer_id), count(customer_id), count(*), sum(customer_id), avg(customer_id), sum(DISTINCT customer_id), min(customer_id), variance(customer_id) FROM orders;
SELECT status, count(customer_id), count(DISTINCT customer_id), sum(customer_id), avg(customer_id) FROM orders GROUP BY status ORDER BY 1;
SELECT status, count(DISTINCT customer_id), count(customer_id) FROM orders GROUP BY status HAVING count(customer_id) > count(DISTINCT customer_id) ORDER BY 1;
SELECT status FROM orders GROUP BY status HAVING count(DISTINCT customer_id) < count(customer_id) ORDER BY count(customer_id), count(DISTINCT customer_id), 1;
SELECT count(customer_id) FILTER (WHERE total > 50), count(DISTINCT customer_id) FILTER (WHERE total > 50), count(customer_id), count(DISTINCT customer_id) FROM orders;
SELECT status, count(DISTINCT customer_id) FILTER (WHERE order_id > 1), count(customer_id) FILTER (WHERE order_id > 1), sum(customer_id) FILTER (WHERE order_id > 1), avg(customer_id) FILTER (WHERE order_id > 1)
	FROM orders GROUP BY status ORDER BY 1;
SELECT c.region, count(c.customer_id), count(DISTINCT c.customer_id), count(o.customer_id), count(DISTINCT o.customer_id) FROM customers c LEFT JOIN orders o USING (customer_id) GROUP BY c.region ORDER BY 1;
SELECT count(customer_id) - count(DISTINCT customer_id) AS more, count(customer_id) = count(DISTINCT customer_id) AS same FROM orders;
SELECT count(DISTINCT customer_id) FROM orders HAVING count(customer_id) > 10;
SELECT sum(order_id), avg(order_id), sum(order_id) FILTER (WHERE total > 50), avg(order_id) FILTER (WHERE total > 50), sum(DISTINCT order_id) FROM orders;
SELECT (SELECT count(customer_id) FROM orders), (SELECT count(DISTINCT customer_id) FROM orders), count(customer_id), count(DISTINCT customer_id) FROM customers;
SELECT array_agg(DISTINCT status ORDER BY status DESC), array_agg(DISTINCT order_id) = array_agg(DISTINCT order_id ORDER BY order_id) FROM orders;
SELECT status, (array_agg(customer_id ORDER BY total DESC NULLS LAST, customer_id, order_id))[1:3] FROM orders GROUP BY status ORDER BY 1;
SELECT count(ALL status), sum(ALL order_id) FROM orders;
SELECT count(o), count(DISTINCT o.*) FROM orders o WHERE customer_id < 20;
SELECT max(total) - min(total), sum(total * 2 + 1), sum(CASE WHEN status = 'paid' THEN total ELSE 0 END), sum(total) FILTER (WHERE total > 0) * 100 / sum(total) FROM orders;
SELECT sum(total) + (SELECT sum(price) FROM items) FROM orders;
SELECT (SELECT count(*) FROM orders o WHERE o.status = s.status) FROM (SELECT DISTINCT status FROM orders) s ORDER BY 1;
SELECT c.region, (SELECT sum(o.total) FROM orders o JOIN customers x USING (customer_id) WHERE x.region = c.region) FROM customers c GROUP BY c.region ORDER BY 1;

-- Several groupings at once.

SELECT status, customer_id % 2, count(*), grouping(status), grouping(customer_id % 2) FROM orders GROUP BY ROLLUP (status, customer_id % 2) ORDER BY 4, 5, 1, 2;
SELECT region, customer_id % 2, count(*), sum(customer_id) FROM customers GROUP BY CUBE (region, customer_id % 2) ORDER BY grouping(region), grouping(customer_id % 2), 1, 2;
SELECT status, date_trunc('quarter', created), count(*) FROM orders GROUP BY GROUPING SETS ((status), (date_trunc('quarter', created)), ()) ORDER BY 1, 2, 3;
SELECT status, count(*) FROM orders GROUP BY GROUPING SETS ((status), ()) HAVING count(*) > 240 ORDER BY 1;
SELECT count(*), sum(a) FROM nothing GROUP BY ROLLUP (b);
SELECT status, count(DISTINCT customer_id) FROM orders GROUP BY ROLLUP (status) ORDER BY 1;

-- What comes after the groups.

SELECT DISTINCT count(*) FROM orders GROUP BY customer_id ORDER BY 1;
SELECT DISTINCT count(*) > 200 FROM orders GROUP BY status ORDER BY 1;
SELECT status, count(*), rank() OVER (ORDER BY count(*) DESC, status), sum(sum(total)) OVER (ORDER BY status) FROM orders GROUP BY status ORDER BY 1;
SELECT status, count(*) FROM orders GROUP BY status UNION ALL SELECT region, count(*) FROM customers GROUP BY region ORDER BY 1, 2;
SELECT count(*) FROM orders UNION ALL SELECT count(*) FROM items UNION ALL SELECT count(*) FROM products ORDER BY 1;
SELECT (SELECT count(*) FROM orders), (SELECT sum(qty) FROM items), (SELECT max(name) FROM customers);
SELECT x.status, x.n, y.n FROM (SELECT status, count(*) AS n FROM orders GROUP BY status) x JOIN (SELECT status, count(*) AS n FROM orders WHERE total > 50 GROUP BY status) y USING (status) ORDER BY 1;
WITH t AS (SELECT status, sum(total) AS s FROM orders GROUP BY status) SELECT a.status, a.s / b.s > 0.2 FROM t a CROSS JOIN (SELECT sum(s) AS s FROM t) b ORDER BY 1;
SELECT status, count(*) FROM orders GROUP BY status ORDER BY 2 DESC, 1 LIMIT 2 OFFSET 1;
-- any order
SELECT status, count(*) FROM orders GROUP BY status ORDER BY count(*) > 200 FETCH FIRST 1 ROW WITH TIES;

-- with 50 | 90 | NULL | 1000
SELECT count(*), sum(total), avg(total) FROM orders WHERE total > $1;
-- with 50, 2 | 90, 3 | NULL, 4
SELECT status, count(*) FILTER (WHERE total > $1), sum(total * $2::int) FROM orders GROUP BY status ORDER BY 1;
-- with 200 | 240 | NULL
SELECT status, count(*) FROM orders GROUP BY status HAVING count(*) > $1 ORDER BY 1;
-- with month | day | quarter
SELECT date_trunc($1, created) AS d, count(*) FROM orders WHERE customer_id < 20 GROUP BY date_trunc($1, created) ORDER BY 1;
-- with 3 | 7 | NULL
SELECT customer_id % $1::int, count(*), count(DISTINCT status) FROM orders GROUP BY 1 ORDER BY 1;
-- with , | ; | NULL
SELECT status, string_agg(order_id::text, $1 ORDER BY customer_id, order_id) FROM orders WHERE customer_id < 9 GROUP BY status ORDER BY 1;
-- with north, 5 | east, 1 | NULL, 0
SELECT c.region, p.category, count(*) FROM customers c JOIN items i USING (customer_id) JOIN products p USING (product_id) WHERE c.region = $1 GROUP BY 1, 2 HAVING count(*) > $2 ORDER BY 3 DESC, 2 LIMIT 5;
