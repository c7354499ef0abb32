-- What PL/Proxy calls on the shards.
CREATE FUNCTION get_order_called(i_customer bigint, i_order bigint) RETURNS SETOF orders LANGUAGE plpgsql STABLE AS $$ BEGIN
	RETURN QUERY SELECT o.customer_id, o.order_id, o.created, o.status, o.total FROM orders o WHERE o.customer_id = i_customer AND o.order_id = i_order;
END $$;
CREATE FUNCTION get_revenue_called(i_customer bigint, OUT category text, OUT count bigint, OUT revenue numeric) RETURNS SETOF record LANGUAGE plpgsql STABLE AS $$ BEGIN
	RETURN QUERY SELECT p.category, count(*), sum(i.qty * i.price) AS sum FROM orders o
		JOIN items i ON i.customer_id = o.customer_id AND i.order_id = o.order_id JOIN products p ON p.product_id = i.product_id
		WHERE o.customer_id = i_customer GROUP BY p.category ORDER BY sum DESC, p.category LIMIT 10;
END $$;
CREATE FUNCTION add_order(i_customer bigint, i_order bigint, i_status text, i_total numeric) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO orders (customer_id, order_id, created, status, total) VALUES (i_customer, i_order, now(), i_status, i_total);
	RETURN 1;
END $$;
CREATE FUNCTION raise_total(i_customer bigint, i_order bigint, i_by numeric) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	UPDATE orders SET total = total + i_by WHERE customer_id = i_customer AND order_id = i_order;
	RETURN 1;
END $$;
CREATE FUNCTION place_order(i_customer bigint, i_order bigint, i_product int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO orders (customer_id, order_id, created, status, total) VALUES (i_customer, i_order, now(), 'new', 0);
	INSERT INTO items VALUES (i_customer, i_order, 1, i_product, 1, 9.99);
	INSERT INTO items VALUES (i_customer, i_order, 2, i_product, 2, 9.99);
	INSERT INTO items VALUES (i_customer, i_order, 3, i_product, 3, 9.99);
	UPDATE orders SET total = 59.94 WHERE customer_id = i_customer AND order_id = i_order;
	RETURN 1;
END $$;
